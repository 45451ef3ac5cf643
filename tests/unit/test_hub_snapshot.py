"""MODEL is a hub id: downloaded by the real client from a hub on this machine."""

import json
from pathlib import Path

from tests.unit import fake_hub
from tests.unit.model_folders import WHOLE, run

HUB_ID = "some-org/tiny-model"


def test_a_hub_model_is_downloaded_once_and_then_found_without_the_hub(tmp_path: Path) -> None:
    extra = {"chat_template.jinja": b"{{ x }}", "model.onnx": b"x", "pytorch_model.bin": b"x"}
    cache = tmp_path / "cache"
    with fake_hub.serve(HUB_ID, WHOLE | extra) as url:
        hub = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"}
        online = run(HUB_ID, cache, **hub)
    assert online.returncode == 0, online.stderr
    found = json.loads(online.stdout)
    assert found["served_model_name"] == HUB_ID
    folder = Path(found["path"])
    # Second copies of the weights are left where they are.
    assert {path.name for path in folder.iterdir()} == {*WHOLE, "chat_template.jinja"}
    assert (folder / "model.safetensors").read_bytes() == WHOLE["model.safetensors"]

    for setting in ("0", "1"):  # the hub is gone; the hub is not to be asked
        offline = run(HUB_ID, cache, **hub | {"HF_HUB_OFFLINE": setting})
        assert offline.returncode == 0, offline.stderr
        assert offline.stdout == online.stdout


def test_pickled_weights_are_downloaded_where_there_are_no_others(tmp_path: Path) -> None:
    files = {name: data for name, data in WHOLE.items() if name != "model.safetensors"}
    files["pytorch_model.bin"] = b"x"
    with fake_hub.serve(HUB_ID, files) as url:
        hub = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"}
        done = run(HUB_ID, tmp_path / "cache", **hub)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in Path(json.loads(done.stdout)["path"]).iterdir()} == set(files)


def test_a_hub_model_that_can_not_be_had_is_explained(tmp_path: Path) -> None:
    home = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"}
    with fake_hub.serve(HUB_ID, {"config.json": WHOLE["config.json"]}) as url:
        unknown = run("some-org/another", tmp_path / "cache", HF_ENDPOINT=url, **home)
        partial = run(HUB_ID, tmp_path / "cache", HF_ENDPOINT=url, **home)
    unreachable = run("some-org/new", tmp_path / "cache", HF_ENDPOINT=url, **home)
    for done, message in (
        (unknown, "the hub has no such model"),
        (partial, "the weights are missing"),
        (unreachable, "the hub can't be reached"),
    ):
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
