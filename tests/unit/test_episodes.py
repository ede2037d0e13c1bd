"""Episode statistics."""

import numpy as np
import pytest

from embodied.core.logger import Logger
from embodied.core.schedule import Counter
from embodied.core.writers.writer import Writer
from embodied.run import episodes as episodes_module
from embodied.run.episodes import EpisodeLogger


class Collect(Writer):
    def __init__(self):
        self.rows = []

    def __call__(self, records):
        self.rows += [(record.step, record.key, float(record.value)) for record in records]


@pytest.fixture
def parts():
    step, output = Counter(), Collect()
    return step, Logger(step, [output], multiplier=2), output


def transition(reward=0.0, first=False, last=False, **extra):
    return {
        "reward": np.float32(reward),
        "is_first": np.bool_(first),
        "is_last": np.bool_(last),
        "is_terminal": np.bool_(last),
        **extra,
    }


def play(episodes, step, worker, rewards, **extra):
    for index, reward in enumerate(rewards):
        step.increment()
        last = index == len(rewards) - 1
        episodes.add(transition(reward, index == 0, last, **extra), worker)


def test_score_and_length_at_the_last_step(parts):
    step, logger, output = parts
    episodes = EpisodeLogger(logger)
    play(episodes, step, 0, [0, 1, 2.5])
    play(episodes, step, 3, [0, -1])
    logger.write()
    assert output.rows == [
        (6, "episode/score", 3.5),
        (6, "episode/length", 2),
        (6, "episode/score_mean", 3.5),
        (10, "episode/score", -1),
        (10, "episode/length", 1),
        (10, "episode/score_mean", 1.25),
    ]
    assert episodes.finished == 2


def test_mean_of_the_last_twenty_scores_is_continued(parts):
    step, logger, output = parts
    state = {"episodes": {}, "started": {}}
    for score in range(30):
        episodes = EpisodeLogger(logger)
        episodes.load(state)
        play(episodes, step, 0, [0, score])
        state = episodes.save()
    logger.write()
    means = [value for _, key, value in output.rows if key == "episode/score_mean"]
    assert means[:3] == [0, 0.5, 1]
    assert means[-1] == np.mean(range(10, 30))


def test_workers_do_not_mix_and_partial_episodes_do_not_count(parts):
    _step, logger, output = parts
    episodes = EpisodeLogger(logger)
    episodes.add(transition(100), 0)  # Joined in the middle of an episode.
    episodes.add(transition(100, last=True), 0)
    episodes.add(transition(0, first=True), 0)
    episodes.add(transition(0, first=True), 1)
    episodes.add(transition(1), 1)
    episodes.add(transition(50), 0)
    episodes.add(transition(0, first=True), 0)  # Abandons the one before.
    episodes.add(transition(2, last=True), 0)
    episodes.add(transition(4, last=True), 1)
    logger.write()
    scores = [value for _, key, value in output.rows if key == "episode/score"]
    assert scores == [2, 5]


def test_reward_rate_counts_changes(parts):
    step, logger, _ = parts
    episodes = EpisodeLogger(logger)
    play(episodes, step, 0, [0, 0, 1, 1, 1.005])
    assert episodes.stats() == {"reward_rate": pytest.approx(1 / 4)}
    play(episodes, step, 0, [0, 1])
    play(episodes, step, 0, [0, 0])
    assert episodes.stats() == {"reward_rate": pytest.approx(0.5)}
    assert episodes.stats() == {}


def test_environment_logs_are_aggregated_within_and_between_episodes(parts):
    _step, logger, _ = parts
    episodes = EpisodeLogger(logger)
    for values in ([1, 2, 6], [1, 1, 1]):
        for index, value in enumerate(values):
            extra = {"log/coins": np.float32(value), "log/vector": np.zeros(2)}
            episodes.add(transition(0, index == 0, index == 2, **extra), 0)
    stats = episodes.stats()
    del stats["reward_rate"]
    assert stats == {"log/coins/avg": 2, "log/coins/max": 3.5, "log/coins/sum": 6}


def test_every_kth_episode_of_the_first_worker_is_filmed(parts):
    step, logger, _ = parts
    episodes = EpisodeLogger(logger, picture_every=2)
    filmed = []
    for number in range(4):
        picture = np.full((4, 6, 3), number, np.uint8)
        extra = {
            "image": picture,
            "log/view": picture.astype(np.float32),
            "deter": np.zeros((2, 3)),
        }
        play(episodes, step, 1, [0, 0], **extra)
        play(episodes, step, 0, [0, 0, 0], **extra)
        stats = episodes.stats()
        filmed.append("policy_image" in stats)
        if filmed[-1]:
            assert set(stats) == {"reward_rate", "policy_image", "policy_log/view"}
            assert stats["policy_image"].shape == (3, 4, 6, 3)
            assert (stats["policy_image"] == number).all()
    assert filmed == [True, False, True, False]


def test_films_can_be_off_and_are_never_too_long(parts, monkeypatch):
    step, logger, _ = parts
    monkeypatch.setattr(episodes_module, "_MAX_FRAMES", 5)
    image = np.zeros((2, 2, 1), np.uint8)
    episodes = EpisodeLogger(logger, picture_every=1)
    play(episodes, step, 0, [0] * 9, image=image)
    assert episodes.stats()["policy_image"].shape == (5, 2, 2, 1)
    episodes = EpisodeLogger(logger, picture_every=0)
    play(episodes, step, 0, [0] * 9, image=image)
    assert "policy_image" not in episodes.stats()


def test_silent_workers_are_forgotten(parts, monkeypatch):
    _step, logger, output = parts
    now = [0.0]
    monkeypatch.setattr(episodes_module.time, "monotonic", lambda: now[0])
    episodes = EpisodeLogger(logger, timeout=10)
    episodes.add(transition(1, first=True), 0)
    episodes.add(transition(1, first=True), 1)
    now[0] = 8
    episodes.add(transition(1), 1)
    now[0] = 12
    episodes.add(transition(1, last=True), 1)
    episodes.add(transition(1, last=True), 0)
    logger.write()
    assert [value for _, key, value in output.rows if key == "episode/score"] == [3]
