"""A teacher's store is what the translator says, whoever did which portion, whatever stopped."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from data.corpora import texts_of
from distilling import config, teacher, translator, work_on
from regard.data.retarget import retarget
from regard.data.sampling import Turn
from regard.data.store import Store
from regard.decoding.distill import Distillation, refuse_unsuitable
from regard.decoding.translator import Translator
from regard.errors import ConfigError, DataError, RunError, StorageError
from toys import run, small_run, write_reversal_store

__all__ = ["teacher", "translator"]  # fixtures


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory,
    reversal_store: Store,
    teacher: Path,
    translator: Translator,
) -> Store:
    """The result of one process that was never stopped."""
    out = tmp_path_factory.mktemp("whole") / "distilled"
    assert work_on(Distillation(reversal_store, [teacher], out, config()), translator) is not None
    return Store(out)


def taught(store: Store, texts: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs that should come of these translations; some keep their target (`retarget`)."""
    with TemporaryDirectory() as folder:
        retarget(store, Path(folder) / "new", texts, author="", mix=False, about={})
        return texts_of(Store(Path(folder) / "new"))


def sources_of(store: Store) -> list[str]:
    return [source for source, _ in texts_of(store)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_targets_are_what_the_translator_says(
    whole: Store, reversal_store: Store, translator: Translator
) -> None:
    found = translator.translate(sources_of(reversal_store), beam_size=2)
    assert texts_of(whole) == taught(reversal_store, [one.text for one in found])
    assert texts_of(whole, "valid") == texts_of(reversal_store, "valid")


def test_the_description_says_where_it_comes_from(whole: Store, reversal_store: Store) -> None:
    about = whole.description["distilled"]
    assert about["data"] == reversal_store.fingerprint
    assert about["teachers"] == "reversal"
    assert about["search"]["beam_size"] == 2


def test_a_student_learns_from_it(whole: Store, tmp_path: Path) -> None:
    rows = run(small_run(tmp_path / "student", whole, max_steps=10), whole).rows
    assert rows[-1]["valid_loss"] < 6


def test_stopping_changes_nothing(
    whole: Store, reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    out = tmp_path / "distilled"
    work = Distillation(reversal_store, [teacher], out, config())
    assert work_on(work, translator, stop_after=2) is None
    assert not out.exists()
    again = Distillation(reversal_store, [teacher], out, config())
    assert again.missing(Turn()) == [2, 3]
    assert work_on(again, translator) is not None
    assert contents(out) == contents(whole.folder)
    assert [path.name for path in tmp_path.iterdir()] == ["distilled"]


def test_shares_make_what_one_process_makes(
    whole: Store, reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    machines = [tmp_path / name / "distilled" for name in ("here", "there")]
    works = [Distillation(reversal_store, [teacher], out, config()) for out in machines]
    assert works[0].portions(Turn(1, 3)) == [1]
    assert work_on(works[0], translator, Turn(0, 3)) is None
    assert work_on(works[0], translator, Turn(1, 3)) is None
    assert work_on(works[1], translator, Turn(2, 3)) is None
    shutil.copytree(
        tmp_path / "there" / "distilled.portions",
        tmp_path / "here" / "distilled.portions",
        dirs_exist_ok=True,
    )
    assert works[0].join() is not None
    assert contents(machines[0]) == contents(whole.folder)


def test_a_portion_is_done_once_however_the_work_is_shared(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    work = Distillation(reversal_store, [teacher], tmp_path / "distilled", config())
    work_on(work, translator, Turn(0, 2))
    assert work.missing(Turn()) == work.portions(Turn(1, 2)) == [1, 3]


def test_several_teachers_are_an_ensemble(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    run(small_run(other, reversal_store, max_steps=30, seed=2, checkpoint_every=30), reversal_store)
    together = Translator.load(teacher, other, device="cpu")
    work = Distillation(reversal_store, [teacher, other], tmp_path / "distilled", config())
    work_on(work, together)
    made, sources = Store(tmp_path / "distilled"), sources_of(reversal_store)
    found = together.translate(sources, beam_size=2)
    assert texts_of(made) == taught(reversal_store, [one.text for one in found])
    assert made.description["distilled"]["teachers"] == "reversal + other"
    alone = translator.translate(sources, beam_size=2)
    assert [one.text for one in alone] != [one.text for one in found]


def test_the_nearest_of_the_beam_is_taken(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    def nearness(text: str, old: str) -> float:
        return sum(a == b for a, b in zip(text, old, strict=False))

    settings = config(nearest=True, search={"beam_size": 4})
    work = Distillation(reversal_store, [teacher], tmp_path / "distilled", settings)
    work_on(work, translator, nearness=nearness)
    beams = [
        [beam.text, *(other.text for other in beam.alternatives)]
        for beam in translator.translate(sources_of(reversal_store), beam_size=4, top_beams=4)
    ]
    chosen = []
    for beam, (_, old) in zip(beams, texts_of(reversal_store), strict=True):
        near = [nearness(text, old) for text in beam]
        chosen.append(beam[near.index(max(near))])  # the likeliest of those as near
    assert texts_of(Store(tmp_path / "distilled")) == taught(reversal_store, chosen)
    assert chosen != [beam[0] for beam in beams]


def test_a_teacher_may_cut_text_in_another_way(
    reversal_store: Store, translator: Translator, teacher: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").mkdir()
    spelled = write_reversal_store(tmp_path / "text", valid=True, tokenizer="char")
    refuse_unsuitable(translator, spelled, config())
    work = Distillation(spelled, [teacher], tmp_path / "distilled", config())
    work_on(work, translator)
    made = Store(tmp_path / "distilled")
    assert made.tokenizers == spelled.tokenizers != reversal_store.tokenizers
    found = translator.translate(sources_of(spelled), beam_size=2)
    assert texts_of(made) == taught(spelled, [one.text for one in found])


# What is refused.


def test_a_finished_result_is_known_again(
    whole: Store, reversal_store: Store, teacher: Path
) -> None:
    assert Distillation(reversal_store, [teacher], whole.folder, config()).is_finished


def test_a_kill_after_the_result_leaves_nothing(
    whole: Store, reversal_store: Store, teacher: Path
) -> None:
    left = whole.folder.with_name("distilled.portions")
    left.mkdir()
    assert Distillation(reversal_store, [teacher], whole.folder, config()).join() is None
    assert not left.exists()


def test_a_result_of_other_settings_is_left_alone(
    whole: Store, reversal_store: Store, teacher: Path
) -> None:
    with pytest.raises(StorageError, match=r"search\.beam_size: 2 -> 3"):
        Distillation(reversal_store, [teacher], whole.folder, config(search={"beam_size": 3}))


@pytest.mark.parametrize("what", ["store", "folder", "file"])
def test_something_else_is_left_alone(
    what: str, reversal_store: Store, teacher: Path, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    if what == "store":
        shutil.copytree(reversal_store.folder, place)
    elif what == "folder":
        place.mkdir()
        (place / "letter.txt").write_text("dear")
    else:
        place.write_text("dear")
    with pytest.raises(StorageError, match="holds something else"):
        Distillation(reversal_store, [teacher], place, config())


def test_work_of_other_settings_is_not_gone_on_with(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    out = tmp_path / "distilled"
    work = Distillation(reversal_store, [teacher], out, config())
    work_on(work, translator, Turn(0, 2))
    other = Distillation(reversal_store, [teacher], out, config(mix=True))
    with pytest.raises(RunError, match="mix: False -> True"), other.held(Turn(1, 2)):
        pass


def test_a_share_that_another_process_works_on_is_left_to_it(
    reversal_store: Store, teacher: Path, tmp_path: Path
) -> None:
    works = [
        Distillation(reversal_store, [teacher], tmp_path / "distilled", config()) for _ in range(2)
    ]
    with (
        works[0].held(Turn(0, 2)),
        works[1].held(Turn(1, 2)),
        pytest.raises(RunError, match="in use by another process"),
        works[1].held(Turn(0, 2)),
    ):
        pass


def test_a_damaged_portion_is_named(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    work = Distillation(reversal_store, [teacher], tmp_path / "distilled", config())
    work_on(work, translator, stop_after=3)
    portion = tmp_path / "distilled.portions" / "1-of-1" / "000003.txt"
    portion.write_text("a\n")
    with pytest.raises(DataError, match=r"000003\.txt has 1 lines, not "):
        work.join()
    portion.write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"000003\.txt is not UTF-8 text"):
        work.join()
    assert not (tmp_path / "distilled").exists()


def test_a_teacher_of_another_direction_is_refused(
    reversal_store: Store, translator: Translator
) -> None:
    turned: dict[str, str | None] = {"source": "yy", "target": "xx"}
    folder = replace(translator.folder, languages=turned)
    other = copy.copy(translator)
    other.folder = folder
    with pytest.raises(ConfigError, match=r"translates yy to xx, and the source of .* is xx"):
        refuse_unsuitable(other, reversal_store, config())


def test_a_teacher_of_other_text_is_refused(reversal_store: Store, translator: Translator) -> None:
    tokenizers = translator.folder.tokenizers
    lower = replace(tokenizers, config=replace(tokenizers.config, lowercase=True))
    folder = replace(translator.folder, tokenizers=lower)
    other = copy.copy(translator)
    other.folder = folder
    with pytest.raises(ConfigError, match="is not lower-cased, and the teacher's is so"):
        refuse_unsuitable(other, reversal_store, config())
