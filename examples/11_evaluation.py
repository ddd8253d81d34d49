"""Evaluation: how well search finds what answers a question, on data of your own, before your users tell you.

`stratalog eval locomo` does the same for LoCoMo's file.

Prints:

    6 turns, 3 questions
    found among the first five: 1.00
    without the words it is not found: True
"""

from datetime import UTC, datetime

from stratalog.engine.evaluating import measured
from stratalog.recall.evaluating import Asked, Said, Talk

DAY = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp() * 1000)
SAID = [
    ("s1", "Ana", "We moved the standup to half past nine."),
    ("s1", "Ben", "Good, I can bring the children to school before."),
    ("s2", "Ana", "The invoice of the printer is still open."),
    ("s2", "Ben", "I paid it on Monday, by bank transfer."),
    ("s3", "Ana", "我们下周去成都出差。"),
    ("s3", "Ben", "好的，我来订火车票。"),
]
QUESTIONS = [
    Asked("When is the standup?", "single-hop", frozenset({"1"})),
    Asked("How was the printer's invoice paid?", "multi-hop", frozenset({"3", "4"})),
    Asked("谁订火车票？", "single-hop", frozenset({"6"})),
]


def main() -> None:
    said = tuple(
        Said(str(number), session, speaker, text, DAY + number * 60_000, first=speaker == "Ana")
        for number, (session, speaker, text) in enumerate(SAID, 1)
    )
    told = measured([Talk("office", said, tuple(QUESTIONS))])
    print(f"{told.turns} turns, {told.questions} questions")
    every = next(row for row in told.rows if row.level == "turn" and row.category == "all but adversarial")
    print(f"found among the first five: {every.recall[5]:.2f}")
    lost = measured([Talk("office", said, (Asked("xylophone", "single-hop", frozenset({"1"})),))])
    print("without the words it is not found:", lost.rows[0].recall[5] == 0)


if __name__ == "__main__":
    main()
