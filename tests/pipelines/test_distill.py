"""A distilled store has the teacher's translations, however the work is split or interrupted."""

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
from regard.data.sampling import Shard
from regard.data.store import Store
from regard.data.target_replacement import replace_targets
from regard.errors import ConfigError, DataError, RunError, StorageError
from regard.pipelines.distill import Distillation, refuse_unsuitable_teacher
from regard.pipelines.translator import Translator
from toys import run, small_run, write_reversal_store

__all__ = ["teacher", "translator"]  # fixtures


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory,
    reversal_store: Store,
    teacher: Path,
    translator: Translator,
) -> Store:
    """The result of one process without interruption."""
    out = tmp_path_factory.mktemp("whole") / "distilled"
    assert work_on(Distillation(reversal_store, [teacher], out, config()), translator) is not None
    return Store(out)


def expected_pairs(store: Store, texts: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of a store with these targets; `replace_targets` keeps some original targets."""
    with TemporaryDirectory() as folder:
        replace_targets(store, Path(folder) / "new", texts, teacher="", mix=False, extra_fields={})
        return texts_of(Store(Path(folder) / "new"))


def sources_of(store: Store) -> list[str]:
    return [source for source, _ in texts_of(store)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_targets_are_the_teachers_translations(
    whole: Store, reversal_store: Store, translator: Translator
) -> None:
    translations = translator.translate(sources_of(reversal_store), beam_size=2, retry=False)
    assert texts_of(whole) == expected_pairs(reversal_store, [t.text for t in translations])
    assert texts_of(whole, "valid") == texts_of(reversal_store, "valid")


def test_description_of_the_result(whole: Store, reversal_store: Store) -> None:
    about = whole.description["distilled"]
    assert about["data"] == reversal_store.fingerprint
    assert about["teachers"] == "reversal"
    assert about["search"]["beam_size"] == 2


def test_student_trains_on_the_result(whole: Store, tmp_path: Path) -> None:
    rows = run(small_run(tmp_path / "student", whole, max_steps=10), whole).rows
    assert rows[-1]["valid_loss"] < 6


def test_resumed_distillation_has_the_same_result(
    whole: Store, reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    out = tmp_path / "distilled"
    work = Distillation(reversal_store, [teacher], out, config())
    assert work_on(work, translator, stop_after=2) is None
    assert not out.exists()
    again = Distillation(reversal_store, [teacher], out, config())
    assert again.missing_chunks(Shard()) == [2, 3]
    assert work_on(again, translator) is not None
    assert contents(out) == contents(whole.folder)
    assert [path.name for path in tmp_path.iterdir()] == ["distilled"]


def test_shards_have_the_same_result_as_one_process(
    whole: Store, reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    machines = [tmp_path / name / "distilled" for name in ("here", "there")]
    works = [Distillation(reversal_store, [teacher], out, config()) for out in machines]
    assert works[0].chunks(Shard(1, 3)) == [1]
    assert work_on(works[0], translator, Shard(0, 3)) is None
    assert work_on(works[0], translator, Shard(1, 3)) is None
    assert work_on(works[1], translator, Shard(2, 3)) is None
    shutil.copytree(
        tmp_path / "there" / "distilled.portions",
        tmp_path / "here" / "distilled.portions",
        dirs_exist_ok=True,
    )
    assert works[0].join() is not None
    assert contents(machines[0]) == contents(whole.folder)


def test_finished_chunks_count_for_all_shards(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    work = Distillation(reversal_store, [teacher], tmp_path / "distilled", config())
    work_on(work, translator, Shard(0, 2))
    assert work.missing_chunks(Shard()) == work.chunks(Shard(1, 2)) == [1, 3]


def test_several_teachers_are_an_ensemble(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    run(small_run(other, reversal_store, max_steps=30, seed=2, checkpoint_every=30), reversal_store)
    together = Translator.load(teacher, other, device="cpu")
    work = Distillation(reversal_store, [teacher, other], tmp_path / "distilled", config())
    work_on(work, together)
    result, sources = Store(tmp_path / "distilled"), sources_of(reversal_store)
    translations = together.translate(sources, beam_size=2, retry=False)
    assert texts_of(result) == expected_pairs(reversal_store, [t.text for t in translations])
    assert result.description["distilled"]["teachers"] == "reversal + other"
    alone = translator.translate(sources, beam_size=2, retry=False)
    assert [t.text for t in alone] != [t.text for t in translations]


def test_select_best_bleu_takes_the_most_similar_hypothesis(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    def similarity(text: str, reference: str) -> float:
        return sum(a == b for a, b in zip(text, reference, strict=False))

    settings = config(select="best-bleu", search={"beam_size": 4})
    work = Distillation(reversal_store, [teacher], tmp_path / "distilled", settings)
    work_on(work, translator, similarity=similarity)
    beams = [
        [beam.text, *(other.text for other in beam.alternatives)]
        for beam in translator.translate(
            sources_of(reversal_store), beam_size=4, num_hypotheses=4, retry=False
        )
    ]
    chosen = []
    for beam, (_, original) in zip(beams, texts_of(reversal_store), strict=True):
        similarities = [similarity(text, original) for text in beam]
        chosen.append(beam[similarities.index(max(similarities))])  # the first of equals
    assert texts_of(Store(tmp_path / "distilled")) == expected_pairs(reversal_store, chosen)
    assert chosen != [beam[0] for beam in beams]


def test_teacher_may_have_another_tokenizer(
    reversal_store: Store, translator: Translator, teacher: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").mkdir()
    char_store = write_reversal_store(tmp_path / "text", valid=True, tokenizer="char")
    refuse_unsuitable_teacher(translator, char_store, config())
    work = Distillation(char_store, [teacher], tmp_path / "distilled", config())
    work_on(work, translator)
    result = Store(tmp_path / "distilled")
    assert result.tokenizers == char_store.tokenizers != reversal_store.tokenizers
    translations = translator.translate(sources_of(char_store), beam_size=2, retry=False)
    assert texts_of(result) == expected_pairs(char_store, [t.text for t in translations])


# Errors.


def test_finished_result_is_recognized(whole: Store, reversal_store: Store, teacher: Path) -> None:
    assert Distillation(reversal_store, [teacher], whole.folder, config()).is_finished


def test_leftover_intermediate_results_are_removed(
    whole: Store, reversal_store: Store, teacher: Path
) -> None:
    left = whole.folder.with_name("distilled.portions")
    left.mkdir()
    assert Distillation(reversal_store, [teacher], whole.folder, config()).join() is None
    assert not left.exists()


def test_result_of_other_settings_is_not_overwritten(
    whole: Store, reversal_store: Store, teacher: Path
) -> None:
    with pytest.raises(StorageError, match=r"search\.beam_size: 2 -> 3"):
        Distillation(reversal_store, [teacher], whole.folder, config(search={"beam_size": 3}))


@pytest.mark.parametrize("what", ["store", "folder", "file"])
def test_unrelated_output_is_not_overwritten(
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
    with pytest.raises(StorageError, match="is not the result of a distillation"):
        Distillation(reversal_store, [teacher], place, config())


def test_intermediate_results_of_other_settings_are_refused(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    out = tmp_path / "distilled"
    work = Distillation(reversal_store, [teacher], out, config())
    work_on(work, translator, Shard(0, 2))
    other = Distillation(reversal_store, [teacher], out, config(mix=True))
    with pytest.raises(RunError, match="mix: False -> True"), other.locked_shard(Shard(1, 2)):
        pass


def test_locked_shard_is_refused(reversal_store: Store, teacher: Path, tmp_path: Path) -> None:
    works = [
        Distillation(reversal_store, [teacher], tmp_path / "distilled", config()) for _ in range(2)
    ]
    with (
        works[0].locked_shard(Shard(0, 2)),
        works[1].locked_shard(Shard(1, 2)),
        pytest.raises(RunError, match="in use by another process"),
        works[1].locked_shard(Shard(0, 2)),
    ):
        pass


def test_error_of_a_damaged_chunk(
    reversal_store: Store, teacher: Path, translator: Translator, tmp_path: Path
) -> None:
    work = Distillation(reversal_store, [teacher], tmp_path / "distilled", config())
    work_on(work, translator, stop_after=3)
    chunk = tmp_path / "distilled.portions" / "1-of-1" / "000003.txt"
    chunk.write_text("a\n")
    with pytest.raises(DataError, match=r"000003\.txt has 1 lines, but must have "):
        work.join()
    chunk.write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"000003\.txt is not UTF-8 text"):
        work.join()
    assert not (tmp_path / "distilled").exists()


def test_teacher_with_another_direction_is_refused(
    reversal_store: Store, translator: Translator
) -> None:
    turned: dict[str, str | None] = {"source": "yy", "target": "xx"}
    other = copy.copy(translator)
    other.text = replace(translator.text, languages=turned)
    with pytest.raises(
        ConfigError, match=r"translates yy to xx, but the source language of .* is xx"
    ):
        refuse_unsuitable_teacher(other, reversal_store, config())


def test_teacher_with_other_normalization_is_refused(
    reversal_store: Store, translator: Translator
) -> None:
    tokenizers = translator.folder.tokenizers
    lower = replace(tokenizers, config=replace(tokenizers.config, lowercase=True))
    other = copy.copy(translator)
    other.text = replace(translator.text, tokenizers=lower)
    with pytest.raises(
        ConfigError, match="is not lowercased, but the teacher's text is lowercased"
    ):
        refuse_unsuitable_teacher(other, reversal_store, config())
