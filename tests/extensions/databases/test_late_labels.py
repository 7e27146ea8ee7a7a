"""The program of the guide on labels that come late, with a server that is started as the page says."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "examples" / "guides" / "late-labels.md").read_text()
[START], [PROGRAM], [SEND] = (
    re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) for language in ("sh", "python", "sql")
)

ROWS = """
import os, signal, sys
from datetime import UTC, datetime, timedelta
import late, numpy as np, prometheus_client, psycopg
from streamgda import GaussianNB

rng = np.random.default_rng(0)
y = np.repeat(["fair", "fraud"], 1000)[rng.permutation(2000)]
at = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours) for hours in range(2000)]
X = rng.normal(size=(2000, 2)) + 2 * (y == "fraud")[:, None] + np.linspace(0, 3, 2000)[:, None]

def connected():
    return psycopg.connect(autocommit=True)

def send(db, ids):
    rows = [(int(id), at[id], X[id].tolist()) for id in ids]
    db.cursor().executemany("INSERT INTO sent (id, at, x) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", rows)

def label(db, ids):
    rows = [(int(id), str(y[id])) for id in rng.permutation(ids)]
    db.cursor().executemany("INSERT INTO labels VALUES (%s, %s) ON CONFLICT DO NOTHING", rows)

with connected() as db:
    db.execute("DROP TABLE IF EXISTS sent, labels, state")
    late.create(db, GaussianNB(half_life=30).partial_fit(X[:100], y[:100], time=at[:100]))
"""
# A process runs the program until it is killed before its n-th line, for each n.
KILLED = """
def kill_before(n):
    def trace(frame, event, _):
        nonlocal n
        if frame.f_code.co_filename != late.__file__:
            return None
        n -= event == "line"
        if not n:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    return trace

late.sleep = lambda _: None
late.start_http_server = lambda _: prometheus_client.start_http_server(0)
n_killed, sent = 0, 100
for n in range(1, 70, 2):
    with connected() as db:
        send(db, range(sent, sent + 5))
        label(db, range(100, sent))  # which come with the next rows, and all of them again
        n > 20 and late.predict(db)  # so that the others learn
    sent += 5
    if not (child := os.fork()):
        sys.settrace(kill_before(n))
        late.run()
    n_killed += os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
with connected() as db:
    label(db, range(100, sent))
    late.predict(db)
    while late.learn(db):
        pass
    model, judged, level = late.read(db)
    [n_learnt] = db.execute("SELECT count(*) FROM labels WHERE learnt").fetchone()
ages = np.array([(at[sent - 1] - one) / timedelta(days=30) for one in at[:sent]])
expected = [0.5 ** ages[y[:sent] == one] @ np.ones((y[:sent] == one).sum()) for one in ("fair", "fraud")]
np.testing.assert_allclose(model.statistics_.weights, expected)
assert model.statistics_.counts.tolist() == [(y[:sent] == one).sum() for one in ("fair", "fraud")]
assert (n_learnt, judged.n_rows, model.statistics_.n_rows) == (sent - 100, sent - 100, sent)
print(n_killed)
"""
DAYS = """
y[1400::5] = "new"
with connected() as db:
    for day in range(100, 2000, 50):
        send(db, range(day, day + 50))
        late.predict(db)
        label(db, range(max(day - 50, 100), day))  # those of the day before
        db.execute("INSERT INTO labels VALUES (%s, NULL), (%s, 'fair')", (day, 10**6 + day))
        late.learn(db)
    model, judged, level = late.read(db)
    in_set = "SELECT in_set[array_position(classes, label)] FROM sent JOIN labels USING (id)"
    held = db.execute(f"{in_set} WHERE learnt ORDER BY at").fetchall()
unknown = np.arange(100, 2000, 50)  # no label is learnt of them
learnt = np.setdiff1d(np.arange(1950), unknown)
assert model.statistics_.counts.tolist() == [(y[learnt] == one).sum() for one in ("fair", "fraud", "new")]
assert held[:1260].count((None,)) == 0 < held.count((None,))  # a new class is not covered at first
assert held.count((True,)) > 0.85 * len(held)
print(prometheus_client.generate_latest().decode())
"""


def driven(server, folder, *parts):
    (folder / "late.py").write_text(PROGRAM)
    (folder / "driver.py").write_text("".join([ROWS, *parts]))
    return subprocess.run(
        [sys.executable, "driver.py"], cwd=folder, env=server, check=True, text=True, stdout=subprocess.PIPE
    ).stdout


@pytest.fixture(scope="module")
def server():
    """The environment of a program that connects to a server of its own."""
    pytest.importorskip("prometheus_client")
    pytest.importorskip("psycopg")
    programs = [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.environ["PATH"].split(os.pathsep))]
    if not (homes := [one for one in programs if (one / "initdb").exists()]):
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    folder = tempfile.mkdtemp(prefix="late")
    environment = os.environ | {
        "PATH": f"{homes[0]}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    how = {"cwd": folder, "env": environment, "stdout": subprocess.DEVNULL}
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "nobody")
        how |= {"user": "nobody", "extra_groups": []}
    subprocess.run(["bash", "-ec", START], check=True, **how)
    exported = re.search(r"export (.*)", START)[1].replace('"$PWD"', folder)
    yield environment | dict(pair.split("=") for pair in exported.split())
    subprocess.run(["pg_ctl", "--pgdata=server", "-m", "immediate", "stop"], check=True, **how)
    shutil.rmtree(folder)


def test_no_label_is_lost_or_counts_twice_wherever_the_program_is_killed(server, tmp_path):
    assert driven(server, tmp_path, KILLED) == "35\n"


def test_labels_of_the_day_before_are_learnt_and_coverage_and_drift_are_told(server, tmp_path):
    told = dict(re.findall(r"^(coverage|shift) (\S+)$", driven(server, tmp_path, DAYS), re.MULTILINE))
    assert 0.7 < float(told["coverage"]) <= 1
    assert 0 < float(told["shift"]) < 10


SENT = f"""
with connected() as db:
    db.execute({SEND!r})
    late.predict(db)
    assert late.learn(db) == 1
"""


def test_the_page_sends_what_the_program_reads(server, tmp_path):
    driven(server, tmp_path, SENT)
