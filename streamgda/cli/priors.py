"""``streamgda priors``."""

from __future__ import annotations

from typing import Any

import click

from streamgda.blocks.wording import counted
from streamgda.cli.data import Data, to_predict
from streamgda.cli.running import Running, of_library, running_options
from streamgda.cli.saved import check_apart, check_replaceable, load_model, out_option


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_predict
@of_library("streamgda.scoring.label_shift:estimate_priors", "max_rows")
@out_option("Save the model with priors for these shares.  [default: not]")
@running_options
def priors(saved_in: str, data: Data, max_rows: int | None, out: str | None, run: Running) -> None:
    """Estimate the shares of the classes in data without labels.

    DATA is as for fit, but needs no labels. The report has a test of whether the shares are
    those of the model. The probabilities of the model must be calibrated: see search --calibrate.

    \b
    Example:
      streamgda priors model.parquet wednesday.parquet --out adjusted.parquet
    """
    from streamgda import estimate_priors
    from streamgda.scoring.inference import features_of

    model = load_model(saved_in, data)
    source = data.unlabelled(features_of(model), model.categories_)
    if out is not None:
        check_replaceable(out)
        check_apart(out, source)
    given: dict[str, Any] = {} if max_rows is None else {"max_rows": max_rows}
    before = model.priors_
    with run.scheduler_options() as options:
        estimate = estimate_priors(model, source, **given, **options)
    table = list(zip(estimate.classes, before, estimate.shares, strict=True))
    document = {
        "n_rows": estimate.n_rows,
        "statistic": estimate.statistic,
        "p_value": estimate.p_value,
        "classes": [{"label": label, "prior": prior, "share": share} for label, prior, share in table],
        "out": out,
    }
    width = max(len(str(label)) for label in ("class", *estimate.classes))
    lines = [
        f"{'class':{width}}   prior   share",
        *(f"{label!s:{width}} {prior:7.4f} {share:7.4f}" for label, prior, share in table),
        f"{counted(estimate.n_rows, 'row')}; p = {estimate.p_value:.3g} if the shares are those of the model",
    ]
    if out is None:
        run.output(document, "\n".join(lines))
        return
    model.set_params(priors=estimate.priors.tolist()).save(out)
    run.report(document, "\n".join([*lines, f"saved in {out}"]))
