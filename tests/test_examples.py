"""Every example runs as a script, and prints the result that it promises."""

import gc
import importlib.util
import os
import runpy
import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tqdm import tqdm

import funcgrad as fg
from funcgrad._backends import choice

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(monkeypatch, capsys):
    """Run an example as ``python examples/name.py arguments`` does; returns what it printed."""

    def run_script(name: str, *arguments: str) -> str:
        path = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [path, *arguments])
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # what the script sets is undone
        monkeypatch.setattr(tqdm, "monitor_interval", 0)  # no thread that outlives the script
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out

    return run_script


def test_all_examples_are_tested():
    files = (Path(__file__), Path(__file__).with_name("test_gallery.py"))
    tests = "".join(path.read_text("utf-8") for path in files)
    assert all(f'"{path.stem}"' in tests for path in EXAMPLES.glob("*.py"))


# ------------------------------------------------------------------------------------------ digits


def test_digits_reads_97_percent(run, tmp_path):
    printed = run("digits", "--out", str(tmp_path))
    accuracy = float(printed.split()[2].rstrip("%"))
    assert accuracy >= 97
    assert printed.strip() == f"test accuracy {accuracy:.2f}% on 360 digits"
    for name in ("digits-loss.png", "digits-errors.png"):
        picture = (tmp_path / name).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 5000


def test_convnet_reads_98_and_a_half_percent(run, tmp_path):
    printed = run("convnet", "--out", str(tmp_path))
    accuracy = float(printed.split()[2].rstrip("%"))
    assert accuracy >= 98.5
    assert printed.strip() == f"test accuracy {accuracy:.2f}% on 360 digits"
    picture = (tmp_path / "convnet.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5000


# ------------------------------------------------------------------------------ text and sequences


def test_text_writes_what_looks_like_the_manual_and_goes_on_bit_for_bit_after_a_kill(
    tmp_path, capsys
):
    module, arguments = load("text"), ["--steps", "75", "--out", str(tmp_path)]
    whole = module.main(arguments)
    assert 2.0 < whole.bits < 3.9  # without what stands before, a character costs 4.7
    assert whole.run.losses.shape == (75,)
    assert capsys.readouterr().out.startswith(f"{whole.bits:.3f} bits per character of ")
    assert len(whole.sample) == 300
    assert sum(letter.isalpha() or letter.isspace() for letter in whole.sample) > 200
    assert (tmp_path / "text-loss.png").read_bytes().startswith(b"\x89PNG")

    folder = tmp_path / "run"
    arguments += ["--checkpoints", str(folder)]
    checkpoints = fg.io.Checkpoints(folder)
    script = "\n".join(
        [
            "import runpy, sys",
            "from funcgrad._backends import choice",
            f"choice.DEFAULT = {choice.DEFAULT!r}",
            f"sys.argv = {['text.py', *arguments]!r}",
            f"runpy.run_path({str(EXAMPLES / 'text.py')!r}, run_name='__main__')",
        ]
    )
    with subprocess.Popen([sys.executable, "-c", script]) as killed:
        deadline = time.monotonic() + 60
        while not checkpoints.steps() and time.monotonic() < deadline:
            time.sleep(0.01)
        killed.kill()
    assert 0 < checkpoints.steps()[-1] < 75
    resumed = module.main(arguments)
    assert checkpoints.steps()[-1] == 75
    assert (resumed.bits, resumed.sample) == (whole.bits, whole.sample)
    for mine, other in zip(fg.tree.leaves(resumed.run), fg.tree.leaves(whole.run), strict=True):
        assert np.asarray(mine).tobytes() == np.asarray(other).tobytes()


def test_text_reads_a_character_at_a_time_as_it_reads_them_all():
    module = load("text")
    model, letters = module.Transformer.init(fg.random.key(0)), module.load()[1][:80]
    caches = [block.attention.cache(80) for block in model.blocks]
    logits = []
    for letter in letters:
        one, caches = model(letter[None], caches)
        logits.append(one[0])
    np.testing.assert_allclose(fg.tree.stack(logits), model(letters)[0], rtol=1e-4, atol=1e-5)


def test_sequence_knows_most_digits_by_half(run, tmp_path):
    printed = run("sequence", "--out", str(tmp_path))
    half, full = (float(word.rstrip("%")) for word in (printed.split()[2], printed.split()[8]))
    assert half >= 80
    assert full >= 92
    assert printed.strip() == (
        f"test accuracy {half:.2f}% after half of the rows, {full:.2f}% after all of them"
    )
    assert (tmp_path / "sequence.png").read_bytes().startswith(b"\x89PNG")


def test_gaussian_process_finds_the_most_likely_parameters(tmp_path, capsys):
    module = load("gaussian_process")
    result = module.main(["--out", str(tmp_path)])
    found = result.found
    assert found.slope < 1e-3
    assert all(later < earlier + 1e-9 for earlier, later in pairwise(found.surprises))
    assert found.surprises[-1] < 1.06
    assert result.explained > 0.3
    assert 0.85 < result.covered < 1.0
    printed = capsys.readouterr().out
    assert f"{found.surprises[-1]:.4f} an observation" in printed
    assert (tmp_path / "gaussian-process.png").read_bytes().startswith(b"\x89PNG")
    fg.testing.check_grads(
        lambda kernel: module.surprise(kernel, result.data.x[:40], result.data.y[:40]),
        (found.kernel,),
        order=2,
    )


def test_kalman_finds_the_most_likely_parameters_and_agrees_with_the_closed_form(tmp_path, capsys):
    module = load("kalman")
    result = module.main(["--out", str(tmp_path)])
    found, truth = (fg.tree.leaves(own) for own in (result.fit.found, module.TRUTH))
    assert result.fit.slope < 1e-4
    assert result.difference == pytest.approx(0.0, abs=1e-12)
    assert result.fit.surprises[-1] < result.fit.surprises[0] - 0.1
    for own, true, deviation in zip(found, truth, result.fit.deviations, strict=True):
        assert 0 < deviation < 0.6
        assert abs(float(own) - float(true)) < 3 * deviation
    assert 0.9 < result.covered < 1.0
    assert "closed form differs by" in capsys.readouterr().out
    assert (tmp_path / "kalman.png").read_bytes().startswith(b"\x89PNG")
    observations = fg.tensor(result.data.observations[:30])
    for transform in (fg.grad, lambda f: fg.jacfwd(fg.grad(f))):
        by_filter = transform(lambda m: module.filtered(m, observations).surprise)(module.GUESS)
        closed = transform(lambda m: module.surprise_of_all(m, observations))(module.GUESS)
        for mine, other in zip(fg.tree.leaves(by_filter), fg.tree.leaves(closed), strict=True):
            assert float(mine) == pytest.approx(float(other), abs=1e-9)


def test_pendulum_finds_what_damps_it(tmp_path, capsys):
    module = load("pendulum")
    result = module.main(["--out", str(tmp_path)])
    names = ("gravity", "linear", "quadratic", "angle", "speed")
    for name in names:
        own, true, deviation = (
            float(getattr(x, name)) for x in (result.found, module.TRUTH, result.deviation)
        )
        assert 0 < deviation < 0.1
        assert abs(own - true) < 3 * deviation
    assert result.noise == pytest.approx(module.NOISE, rel=0.2)
    np.testing.assert_allclose(result.slope, 0.0, atol=1e-4)
    np.testing.assert_allclose(result.slope_by_adjoint, result.slope, atol=1e-4)
    by_steps, by_adjoint = (
        fg.grad(lambda own, how=how: fg.numpy.sum(module.angles(own, module.TIMES[:20], how)))(
            module.GUESS
        )
        for how in ("steps", "adjoint")
    )
    for name in names:
        expected = pytest.approx(float(getattr(by_steps, name)), rel=1e-4)
        assert float(getattr(by_adjoint, name)) == expected
    assert f"noise {result.noise:.4f}" in capsys.readouterr().out
    assert (tmp_path / "pendulum.png").read_bytes().startswith(b"\x89PNG")


def test_bilevel_learns_penalties_through_the_optimum_of_training(tmp_path, capsys):
    module = load("bilevel")
    result = module.main(["--steps", "6", "--out", str(tmp_path)])
    found, training = result.found, result.data.training
    assert found.losses[-1] < 0.6 * result.shared
    assert result.accuracy > 0.9
    assert f"loss {result.shared:.4f} -> {found.losses[-1]:.4f}" in capsys.readouterr().out
    assert (tmp_path / "bilevel.png").read_bytes().startswith(b"\x89PNG")
    slope = fg.grad(module.penalized)(result.weights, found.penalties, training)
    np.testing.assert_allclose(slope, 0.0, atol=1e-7)

    def objective(shift):
        weights = module.train(result.weights, found.penalties + shift, training)
        return module.loss(weights, result.data.choosing)

    fg.testing.check_grads(objective, (0.3,), order=2, rtol=1e-4)


@pytest.mark.parametrize("chosen", [None, "3"])
def test_digits_keeps_one_thread_busy_unless_told_otherwise(chosen):
    """The example's products are so small that threads would wait longer than they compute."""
    watched = "\n".join(
        [
            "import os, runpy, sys",
            "class Watch:",
            "    def find_spec(self, name, path=None, target=None):",
            "        if name == 'numpy':",
            "            print(os.environ.get('OPENBLAS_NUM_THREADS'))",
            "sys.meta_path.insert(0, Watch())",
            "sys.argv = ['digits.py', '--help']",
            f"runpy.run_path({str(EXAMPLES / 'digits.py')!r}, run_name='__main__')",
        ]
    )
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {key: value for key, value in os.environ.items() if key not in names}
    if chosen is not None:
        environment["OPENBLAS_NUM_THREADS"] = chosen
    run = subprocess.run(
        [sys.executable, "-c", watched], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split()[0] == (chosen or "1")


def test_digits_is_deterministic_under_its_seed():
    digits = load("digits")
    first, second = digits.train(seed=3, epochs=1), digits.train(seed=3, epochs=1)
    assert first.losses == second.losses
    for mine, other in zip(
        fg.tree.leaves(first.network), fg.tree.leaves(second.network), strict=True
    ):
        assert np.array_equal(mine, other)
    assert digits.train(seed=4, epochs=1).losses != first.losses


def test_digits_keeps_test_data_out_of_training():
    digits = load("digits")
    train_data, test_data = digits.load(seed=0)
    assert train_data.images.shape == (1437, 64)
    assert test_data.images.shape == (360, 64)
    trained_on = {np.asarray(image).tobytes() for image in train_data.images}
    assert not any(np.asarray(image).tobytes() in trained_on for image in test_data.images)


# ---------------------------------------------------------------------------------------- parallel


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_parallel_goes_through_more_data_than_a_worker_may_hold(capsys):
    module = load("parallel")
    arguments = ["--chunks", "42", "--rows", "60000", "--steps", "2", "--megabytes", "400"]
    result = module.main(arguments)
    assert result.megabytes > result.workers_megabytes
    assert capsys.readouterr().out.startswith("423 MB of data, 400 MB a worker: regression ")
    for name, losses in result.losses.items():
        assert losses[-1] < losses[0], name
    assert result.accuracies["regression"] > 0.65
    assert result.accuracies["net"] > 0.65


def test_parallel_has_the_same_bits_on_threads():
    module = load("parallel")
    chunks = [partial(module.generate, number, 200) for number in range(5)]
    params = {"w": np.zeros(module.FEATURES), "b": 0.0}
    ends = []
    for executor in (ThreadPoolExecutor(1), ThreadPoolExecutor(3)):
        with executor:
            ends.append(module.fit(module.linear, params, chunks, executor, 3))
    first, second = [[np.asarray(x).tobytes() for x in fg.tree.leaves(end)] for end in ends]
    assert first == second


# ------------------------------------------------------------------------------------- no_aliasing


def test_no_aliasing(run):
    first, second = load("no_aliasing").main()
    assert (float(first.x), float(first.z), float(first.gradient)) == (2, 6, 3)
    assert float(first.stepped) == pytest.approx(1.7)
    assert second.x is first.stepped
    assert float(second.z) == pytest.approx(5.1)
    assert float(second.gradient) == 3
    assert float(second.stepped) == pytest.approx(1.4)
    assert "z = 5.1" in run("no_aliasing")


# ------------------------------------------------------------------------------------ linear_layer


def test_linear_layer_loses_042_a_step():
    history = load("linear_layer").main()
    losses = [taken.loss for taken in history]
    assert len(losses) == 5
    assert np.diff(losses) == pytest.approx([-0.42] * 4, abs=1e-12)
    assert all(taken.output_gradient.tolist() == [1, 1, 1] for taken in history)
    stores = [taken.store["layer.weight"].tolist() for taken in history]
    assert all(before != after for before, after in pairwise(stores))


def test_linear_layer_drops_each_record_without_the_garbage_collector():
    example = load("linear_layer")
    gc.disable()
    try:
        assert all(taken.record_is_gone for taken in example.main())
    finally:
        gc.enable()


def test_linear_layer_witness_lives_as_long_as_the_record():
    example = load("linear_layer")
    witness = example.Witness()
    reference = weakref.ref(witness)
    _, pullback = fg.vjp(lambda x, witness=witness: example.watched(x, witness), example.X)
    del witness
    assert reference() is not None
    assert pullback(example.X)[0].tolist() == [1, 2, 3]
    del pullback
    assert reference() is None


def test_linear_layer_goes_on_from_a_saved_store(run, tmp_path):
    path = tmp_path / "store.npz"
    first, second = run("linear_layer", str(path)), run("linear_layer", str(path))
    last, following = (
        float(printed.splitlines()[line].split()[3].rstrip(","))
        for printed, line in ((first, -1), (second, 0))
    )
    assert following == pytest.approx(last - 0.42, abs=1e-3)


def test_linear_layer_store_cannot_be_written():
    store = load("linear_layer").load_or_initialize(None, fg.random.key(0))
    with pytest.raises(TypeError):
        store["layer.weight"] = 0


# ------------------------------------------------------------------- shared_input and from_scratch


def test_shared_input(run):
    assert load("shared_input").main() < 1e-14
    assert "400 calls from 8 threads" in run("shared_input")


def test_from_scratch(run):
    results = load("from_scratch").main()
    x = np.array([-2.0, 0.0, 3.0])
    logistic = 1 / (1 + np.exp(-x))
    assert np.asarray(results["value"]) == pytest.approx(np.log1p(np.exp(x)))
    for name in ("grad", "vmap", "logistic"):
        assert np.asarray(results[name]) == pytest.approx(logistic)
    assert np.asarray(results["jvp"]) == pytest.approx(logistic * [1, 0, 0])
    assert np.asarray(results["hessian"]) == pytest.approx(np.diag(logistic * (1 - logistic)))
    assert "hessian" in run("from_scratch")
