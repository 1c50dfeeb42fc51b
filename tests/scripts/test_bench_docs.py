"""The page of benchmarks is what the script makes of the records, and nothing else."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import common, docs
from puffertoolkit.errors import UserError

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path for path in (ROOT / "scripts").glob("bench_*"))


def head(kind, **more):
    return {**common.record(kind, f"bench_{kind}", ["--threads", "2"], {}), **more}


def side(sps):
    return {"sps": sps, "spread": 0.1, "repeats": [sps] * 3, "memory_mb": 321.0}


FACTS = {"env": "pong", "policy": "Policy, 1,234 parameters", "num_threads": 2, "num_agents": 64}
SPEED = dict.fromkeys(("simulation", "rollout", "training"), 1.0)
RECORDS = {
    "speed": {
        **FACTS,
        "device": "cpu",
        "horizon": 64,
        "minibatch_size": 4096,
        "update_epochs": 1,
        "precision": "float32",
        "sps": {"simulation": 9_000_001.0, "rollout": 800_002.0, "training": 70_003.0},
        "spread": SPEED,
        "shares": {"env": 0.1, "forward": 0.3, "backward": 0.4, "optimizer": 0.05, "rest": 0.15},
        "peak_memory_mb": 321.0,
    },
    "train": {
        "results": [
            {"settings": {"env": "breakout"}, "ours": side(70_003.0), "theirs": side(35_001.0), "ratio": 2.04}
        ]
    },
    "learning": {
        "results": [
            {
                "env": "pong",
                "statistic": "perf",
                "target": 0.9,
                "seconds": 12.3,
                "steps": 70_003.0,
                "runs": [
                    {"seed": 0, "reached": True, "seconds": 12.3, "steps": 70_003, "best": 0.91},
                    {"seed": 1, "reached": False, "seconds": 45.6, "steps": 80_000, "best": 0.5},
                ],
            }
        ]
    },
    "contention": {
        "training": FACTS,
        "results": [{"condition": "busy", "sps": 70_003.0, "spread": 0.1, "ratio": 0.61, "fair": 2 / 3}],
    },
    "scaling": {
        "training": FACTS,
        "results": [
            {
                "num_agents": 70_003,
                "ns_per_step": {"simulation": 10.0, "rollout": 200.0, "training": 3000.0},
                "needed_memory_mb": 55.0,
                "peak_memory_mb": 321.0,
            }
        ],
    },
}


def test_the_page_is_what_the_records_say():
    assert docs.PAGE.read_text() == docs.render(docs.RECORDS), "run scripts/bench_docs"
    assert docs.main(["--check"]) == 0


@pytest.mark.parametrize("kind", list(docs.SECTIONS))
def test_a_record_of_each_kind_is_shown(kind, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(head(kind, **RECORDS[kind])))
    page = docs.render(tmp_path)
    assert "70,003" in page
    assert f"`scripts/bench_{kind} --threads 2`" in page
    assert page.count("Not measured yet") == len(docs.SECTIONS) - 1
    widths = [line.count("|") for line in page.splitlines() if line.startswith("|")]
    assert len(widths) >= 3
    assert len(set(widths)) == 1
    assert re.search(r"\d{4}-\d\d-\d\d, .+ cores", page)


def test_several_records_of_a_kind_follow_one_another(tmp_path):
    for name, env in (("b", "second"), ("a", "first")):
        (tmp_path / f"{name}.json").write_text(json.dumps(head("speed", **{**RECORDS["speed"], "env": env})))
    page = docs.render(tmp_path)
    assert page.index("**first") < page.index("**second")


def test_unreached_scores_say_so(tmp_path):
    record = head("learning", **RECORDS["learning"])
    record["results"][0].update(seconds=None, steps=None)
    (tmp_path / "a.json").write_text(json.dumps(record))
    assert "| pong | perf 0.9 | not reached | 12.3, >46 | - |" in docs.render(tmp_path)


def test_records_tell_no_name_of_a_machine(tmp_path):
    machine = head("train")["machine"]
    assert set(machine) == {"system", "architecture", "processor", "cpu_count"}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"kind": "sped"}'])
def test_what_is_no_record_is_refused(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=r"a\.json is no"):
        docs.render(tmp_path)


def test_check_tells_an_old_page(tmp_path):
    page = tmp_path / "page.md"
    places = ["--records", str(tmp_path), "--output", str(page)]
    assert docs.main([*places, "--check"]) == 1
    assert not page.exists()
    assert docs.main(places) == 0
    assert docs.main([*places, "--check"]) == 0
    page.write_text(page.read_text() + "typed by hand\n")
    assert docs.main([*places, "--check"]) == 1


def test_no_records_at_all(tmp_path):
    with pytest.raises(UserError, match="There is no folder"):
        docs.render(tmp_path / "nowhere")


def test_there_is_a_script_for_each_module():
    assert {path.name for path in SCRIPTS} == {
        f"bench_{name}" for name in ("train", "learning", "contention", "scaling", "docs")
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_thin_and_explain_themselves(script):
    text = script.read_text()
    assert script.stat().st_mode & 0o100
    module = re.search(r"-m (benchmarks\.\w+) ", text)
    assert module
    assert (ROOT / "scripts" / f"{module[1].replace('.', '/')}.py").is_file()
    assert subprocess.run(["bash", "-n", script]).returncode == 0


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_help(script, monkeypatch, capsys):
    module = __import__(f"benchmarks.{script.name.removeprefix('bench_')}", fromlist=["main"])
    with pytest.raises(SystemExit) as left:
        module.main(["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: scripts/{script.name}")
    if script.name != "bench_docs":
        assert "--json" in shown
