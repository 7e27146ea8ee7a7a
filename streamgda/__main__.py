"""``python -m streamgda`` is the command ``streamgda``."""

from streamgda.cli.main import main

if __name__ == "__main__":  # worker processes of --scheduler processes import this too
    main(prog_name="streamgda")
