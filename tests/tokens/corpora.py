"""Texts on which the error of counting is reported. None of them is among those the weights were fitted on.

`SAMPLES` were written for these tests; `reported()` adds the other half of the public data, where it is at
hand. The half that is fitted on is in `benchmarks/token_counts.py`. Kinds are the same in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis

DATA = Path(__file__).parents[3] / "shared" / "data"
KINDS = (
    "English",
    "Chinese, simplified",
    "Chinese, traditional",
    "Python",
    "TypeScript",
    "diff",
    "JSON",
    "logs",
    "tool output",
    "mixed",
)

ENGLISH = """\
The ferry had stopped running an hour before we reached the landing, so we walked back along the shore road
with our bags over our shoulders and the wind behind us. Nobody said much. My brother counted the
lighthouses out loud, as he always does when he is tired, and Ines kept asking whether the guesthouse would
still have a room for three.

"They will," I told her, although I had no idea. The woman who answered the telephone that morning had
sounded busy and a little deaf, and I was not certain that she had written down our name. We had booked
under Ines's surname, which people tend to misspell, and paid nothing in advance.

By the time the village came into view it was raining properly. A dog followed us for the last half mile and
then, losing interest, turned into a yard full of upturned boats. There was a light in the kitchen of the
guesthouse. Through the window we could see an old man peeling potatoes into a bucket; he looked up, waved
the knife at us in a friendly sort of way, and pointed to the door. It turned out that he had kept supper.
It turned out, too, that the ferry had not been cancelled because of the weather at all, but because the
captain's daughter was getting married and the entire crew had been invited. Would we like to go? There
would be dancing, he said, and more fish than anybody could reasonably eat. We looked at each other, three
wet people on a stone floor, and began to laugh.
"""

SIMPLIFIED = """\
上周五下午，我们在三楼的小会议室里开了一次复盘会。参加的人不多，只有产品、后端和测试的几位同事。大家先把这次上线
出现的问题按时间顺序列在白板上，然后一条一条地讨论原因。最严重的问题是订单状态更新得太慢，有些用户付了款，页面上
却一直显示“待支付”，于是又付了一次。客服那边当天接到了四十多个电话。

老周认为根本原因是消息队列的消费者数量配置得太少，高峰期积压了将近二十分钟。小林不太同意，她说监控里早就有告警，
只是没有人看。两个人说得都有道理。最后我们决定：第一，把消费者的数量改成可以自动伸缩；第二，告警必须有明确的负责人，
超过五分钟没人处理就升级；第三，付款页面在提交之后要把按钮禁用，避免重复点击。

散会以后，我请大家去楼下吃了一碗牛肉面。外面下着小雨，街上的银杏叶子已经黄了一半。小林说她下个月要搬到杭州去，
因为她先生在那边找到了新工作，孩子也可以进附近的学校。我们都有些舍不得，不过还是祝她一切顺利。她笑着说，反正写代码
在哪里都一样，只要网络别断就行。你有没有想过，如果当初我们选择了另外一种架构，今天的这些麻烦是不是就不会发生了呢？
"""

TRADITIONAL = """\
颱風過境後的第三天，我和外婆一起回到山上的老屋。道路有好幾處被土石掩埋，工程車正在清理，我們只好把車停在橋頭，
背著背包慢慢走上去。外婆走得比我還快，一面走一面指給我看：這裡從前是郵局，那邊是她小時候讀書的學校，後來因為學生
太少就關閉了。

老屋的屋頂掀掉了一角，雨水滲進客廳，把牆壁上的月曆和照片都弄濕了。外婆沒有嘆氣，只是把照片一張一張取下來，攤在
竹席上曬太陽。有一張是她和外公結婚那天拍的，兩個人都板著臉，站在一輛借來的腳踏車旁邊。她說，那時候拍照很貴，所以
誰也不敢笑，怕浪費了底片。

傍晚的時候，鄰居送來一鍋熱騰騰的薑湯和幾個饅頭。大家坐在門口的長凳上聊天，談起五十年前那場更大的颱風，談起誰家的
孩子在臺北開了餐廳、誰家的果園今年收成不好。天色漸漸暗下來，山谷裡傳來蟲鳴，還有遠處河水奔流的聲音。我忽然覺得，
這個我以為自己早已忘記的地方，其實一直都在等著我回來。
"""

PYTHON = '''\
from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(order=True)
class Job:
    """A piece of work that may run once everything it needs is done."""

    due: float
    name: str = field(compare=False)
    needs: frozenset[str] = field(default_factory=frozenset, compare=False)
    retries_left: int = field(default=3, compare=False)


class Planner:
    def __init__(self, jobs: list[Job], *, max_parallel: int = 4) -> None:
        if max_parallel < 1:
            raise ValueError(f"max_parallel must be at least 1, not {max_parallel!r}")
        self._waiting = {job.name: job for job in jobs}
        self._blocks: dict[str, set[str]] = defaultdict(set)
        self._ready: list[Job] = []
        self._running: set[str] = set()
        self.max_parallel = max_parallel
        for job in jobs:
            for need in job.needs:
                self._blocks[need].add(job.name)
            if not job.needs:
                heapq.heappush(self._ready, job)

    def next_batch(self) -> list[str]:
        """Names of the jobs to start now, the most urgent first."""
        batch: list[str] = []
        while self._ready and len(self._running) < self.max_parallel:
            job = heapq.heappop(self._ready)
            self._running.add(job.name)
            batch.append(job.name)
        return batch

    def finished(self, name: str, ok: bool) -> None:
        self._running.discard(name)
        job = self._waiting[name]
        if not ok and job.retries_left > 0:
            # Try again a little later, behind whatever else is due by then.
            heapq.heappush(self._ready, Job(job.due + 30.0, name, job.needs, job.retries_left - 1))
            return
        del self._waiting[name]
        for blocked in sorted(self._blocks.pop(name, ())):
            candidate = self._waiting.get(blocked)
            if candidate is not None and not (candidate.needs & self._waiting.keys()):
                heapq.heappush(self._ready, candidate)
'''

TYPESCRIPT = """\
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Row, SortKey } from "../types/table";
import { fetchRows } from "../api/rows";

interface TableProps {
  endpoint: string;
  pageSize?: number;
  onSelect?: (row: Row) => void;
}

const DEFAULT_PAGE_SIZE = 25;

export function DataTable({ endpoint, pageSize = DEFAULT_PAGE_SIZE, onSelect }: TableProps): JSX.Element {
  const [rows, setRows] = useState<Row[]>([]);
  const [sortKey, setSortKey] = useState<SortKey>("updatedAt");
  const [ascending, setAscending] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const abortRef = useRef<AbortController | null>(null);

  useEffect(() => {
    abortRef.current?.abort();
    const controller = new AbortController();
    abortRef.current = controller;
    fetchRows(endpoint, { signal: controller.signal, limit: pageSize })
      .then((result) => setRows(result.items))
      .catch((reason: unknown) => {
        if (!controller.signal.aborted) {
          setError(reason instanceof Error ? reason.message : String(reason));
        }
      });
    return () => controller.abort();
  }, [endpoint, pageSize]);

  const sorted = useMemo(() => {
    const direction = ascending ? 1 : -1;
    return [...rows].sort((a, b) => (a[sortKey] > b[sortKey] ? direction : -direction));
  }, [rows, sortKey, ascending]);

  const handleHeaderClick = useCallback((key: SortKey) => {
    setAscending((previous) => (key === sortKey ? !previous : true));
    setSortKey(key);
  }, [sortKey]);

  if (error !== null) {
    return <p role="alert" className="table-error">Could not load rows: {error}</p>;
  }
  return (
    <table className="data-table">
      <tbody>
        {sorted.map((row) => (
          <tr key={row.id} onClick={() => onSelect?.(row)}>
            <td>{row.name}</td>
            <td>{new Date(row.updatedAt).toLocaleDateString("en-GB")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
"""

DIFF = """\
diff --git a/server/cache.go b/server/cache.go
index 3f1c9ab..8d02e47 100644
--- a/server/cache.go
+++ b/server/cache.go
@@ -12,9 +12,12 @@ import (
 )

 type Cache struct {
-\tmu      sync.Mutex
-\tentries map[string]entry
-\tttl     time.Duration
+\tmu       sync.RWMutex
+\tentries  map[string]entry
+\tttl      time.Duration
+\tcapacity int
+\thits     atomic.Int64
+\tmisses   atomic.Int64
 }

@@ -31,14 +34,22 @@ func New(ttl time.Duration) *Cache {

 // Get returns the value stored under key, and whether it is still fresh.
 func (c *Cache) Get(key string) ([]byte, bool) {
-\tc.mu.Lock()
-\tdefer c.mu.Unlock()
+\tc.mu.RLock()
 \te, ok := c.entries[key]
-\tif !ok || time.Since(e.added) > c.ttl {
+\tc.mu.RUnlock()
+\tif !ok {
+\t\tc.misses.Add(1)
 \t\treturn nil, false
 \t}
+\tif time.Since(e.added) > c.ttl {
+\t\tc.misses.Add(1)
+\t\tc.Delete(key)
+\t\treturn nil, false
+\t}
+\tc.hits.Add(1)
 \treturn e.value, true
 }
diff --git a/docs/cache.md b/docs/cache.md
index 77aa01c..b5e3d90 100644
--- a/docs/cache.md
+++ b/docs/cache.md
@@ -3,4 +3,7 @@
 The cache keeps rendered pages in memory for as long as `ttl` says.
-It is emptied when the server restarts.
+It is emptied when the server restarts, and holds at most `capacity` pages: the one that
+was added first makes room for the next.
+
+Reads do not block one another. `GET /debug/cache` shows how many of them were hits.
"""

JSON = json.dumps(
    {
        "id": "evt_1PqT9kLz",
        "object": "order.updated",
        "created": 1761840913,
        "livemode": False,
        "data": {
            "order": {
                "number": "R-2025-004417",
                "currency": "EUR",
                "total_cents": 18990,
                "customer": {
                    "id": 90211,
                    "email": "m.okafor@example.org",
                    "name": "Miriam Okafor",
                    "addresses": [
                        {"kind": "billing", "street": "Lindenweg 4", "postcode": "50674", "city": "Köln"},
                        {
                            "kind": "shipping",
                            "street": "Hafenstraße 118",
                            "postcode": "20457",
                            "city": "Hamburg",
                        },
                    ],
                },
                "lines": [
                    {"sku": "CH-4410-BLK", "title": "Desk chair, black", "quantity": 1, "price_cents": 14900},
                    {"sku": "MAT-0032", "title": "Floor mat 90x120 cm", "quantity": 1, "price_cents": 3490},
                    {"sku": "SHIP-STD", "title": "Standard shipping", "quantity": 1, "price_cents": 600},
                ],
                "status": {"previous": "paid", "current": "packed", "changed_at": "2025-10-30T16:15:13.482Z"},
                "tags": ["first-order", "newsletter", "gift-wrap:false"],
                "metadata": {
                    "utm_source": "search",
                    "session": "6f9d1c0e-3c44-4b0d-9a3f-0a7be7d0c1de",
                    "score": 0.8734,
                },
            }
        },
        "request": {"id": None, "idempotency_key": "b1946ac92492d2347c6235b4d2611184"},
    },
    indent=2,
    ensure_ascii=False,
)

LOGS = """\
2026-03-14T08:02:11.317Z INFO  [main] org.acme.orders.Application - Starting Application v4.2.1 using Java 21.0.4 with PID 1
2026-03-14T08:02:14.902Z INFO  [main] com.zaxxer.hikari.HikariDataSource - orders-pool - Start completed.
2026-03-14T08:02:15.448Z WARN  [main] o.a.k.clients.consumer.ConsumerConfig - The configuration 'retries' was supplied but isn't a known config.
2026-03-14T08:02:16.001Z INFO  [http-nio-8080-exec-1] o.a.o.web.RequestLog - GET /healthz 200 3ms
2026-03-14T08:02:47.655Z INFO  [http-nio-8080-exec-4] o.a.o.web.RequestLog - POST /api/v2/orders 201 184ms user=90211 trace=4bf92f3577b34da6a3ce929d0e0e4736
2026-03-14T08:02:47.912Z ERROR [http-nio-8080-exec-7] o.a.o.payment.PaymentClient - charge failed after 3 attempts
java.net.SocketTimeoutException: Read timed out
\tat java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:278)
\tat java.base/sun.nio.ch.NioSocketImpl.implRead(NioSocketImpl.java:304)
\tat org.acme.orders.payment.PaymentClient.charge(PaymentClient.java:118)
\tat org.acme.orders.web.OrderController.create(OrderController.java:64)
2026-03-14T08:02:48.020Z INFO  [http-nio-8080-exec-7] o.a.o.web.RequestLog - POST /api/v2/orders 502 30241ms user=77120 trace=00f067aa0ba902b7
Mar 14 08:03:01 web-03 systemd[1]: Started Daily apt download activities.
Mar 14 08:03:02 web-03 CRON[21877]: (root) CMD (test -x /usr/sbin/anacron || run-parts --report /etc/cron.daily)
Mar 14 08:03:09 web-03 kernel: [1843021.552817] oom-kill:constraint=CONSTRAINT_MEMCG,task=java,pid=4112,uid=1000
10.0.3.17 - - [14/Mar/2026:08:03:11 +0000] "GET /static/app.3f9c1b.js HTTP/2.0" 304 0 "https://shop.example/" "Mozilla/5.0"
10.0.3.22 - - [14/Mar/2026:08:03:12 +0000] "GET /api/v2/orders?page=2&limit=50 HTTP/1.1" 200 18231 "-" "curl/8.9.1"
"""  # noqa: E501  # a line of a log is as long as it is

TOOLS = """\
$ pytest -q tests/payment
..F....s...                                                                                  [100%]
=================================== FAILURES ===================================
_________________________ test_refund_is_idempotent __________________________
tests/payment/test_refund.py:41: in test_refund_is_idempotent
    assert first.id == second.id
E   AssertionError: assert 're_001' == 're_002'
=========================== short test summary info ============================
FAILED tests/payment/test_refund.py::test_refund_is_idempotent - AssertionError
1 failed, 9 passed, 1 skipped in 2.38s
$ ls -la dist
total 1184
drwxr-xr-x  2 build build   4096 Mar 14 07:58 .
-rw-r--r--  1 build build 603412 Mar 14 07:58 acme_orders-4.2.1-py3-none-any.whl
-rw-r--r--  1 build build 598877 Mar 14 07:58 acme_orders-4.2.1.tar.gz
$ grep -rn "idempotency" src | head -4
src/acme/payment/client.py:88:    headers["Idempotency-Key"] = key or str(uuid4())
src/acme/payment/client.py:131:        # TODO: the idempotency key is made anew on each retry
src/acme/payment/models.py:17:    idempotency_key: str | None = None
src/acme/web/views.py:204:    return refund(order, idempotency_key=request.headers.get("X-Request-Id"))
"""

MIXED = f"""\
帮我看一下这个测试为什么失败，我觉得是 `idempotency_key` 在每次 retry 的时候都重新生成了：

```console
{TOOLS[:760]}
```

我已经试过把 `uuid4()` 移到循环外面，but the second refund still gets a new id. 下面是 client 的代码：

```python
def refund(self, order: Order, *, key: str | None = None) -> Refund:
    for attempt in range(self.max_attempts):  # 最多重试三次
        headers = {{"Idempotency-Key": key or str(uuid4())}}
        response = self._http.post(f"/orders/{{order.id}}/refunds", headers=headers)
        if response.status_code < 500:
            return Refund(**response.json())
    raise PaymentUnavailable(order.id)
```

Sure. 问题在于 `key or str(uuid4())` 这一行：当调用方没有传入 `key` 的时候，每一次循环都会得到一个新的值，
所以服务端会把它当成两个不同的请求。Compute the key once, before the loop, and pass it on. 另外，建议把它保存
到`refunds` 表里，这样即使进程重启也不会重复退款。返回的 JSON 应该是这样的：

{{"id": "re_001", "order": "R-2025-004417", "状态": "已退款", "amount": 18990}}
"""

SAMPLES = dict(
    zip(
        KINDS,
        (ENGLISH, SIMPLIFIED, TRADITIONAL, PYTHON, TYPESCRIPT, DIFF, JSON, LOGS, TOOLS, MIXED),
        strict=True,
    )
)


def reported() -> dict[tuple[str, str], list[str]]:
    """The public data's other half by kind and source, and a library's code; empty kinds are left out."""
    found = {
        ("English", "longmemeval"): [text for number in (1, 2) for text in longmemeval(number)],
        ("English", "memorybank"): memorybank("en"),
        ("English", "locomo"): locomo(),
        ("Chinese, simplified", "cmrc"): passages("cmrc2018_trial.json")[1::2],
        ("Chinese, simplified", "memorybank"): [
            text for number, text in enumerate(memorybank("cn")) if number % 3
        ],
        ("Chinese, traditional", "drcd"): passages("DRCD_dev.json")[1::2],
        ("Python", "hypothesis"): library(Path(hypothesis.__file__).parent),
        ("JSON", "codex"): raw("codex"),
        ("JSON", "pi"): raw("pi"),
        ("JSON", "gemini_cli"): raw("gemini_cli"),
        ("tool output", "pi"): spoken("pi"),
        ("mixed", "memorybank, JSON"): [
            json.dumps({"day": number, "said": text.split("\n")}, ensure_ascii=False)
            for number, text in enumerate(memorybank("cn"))
            if number % 3
        ],
    }
    return {name: texts for name, texts in found.items() if texts}


def _json(*parts: str) -> Any:
    path = DATA.joinpath(*parts)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def longmemeval(number: int) -> list[str]:
    """The sessions of one haystack."""
    stacks = _json("longmemeval", "longmemeval_s_excerpt.json") or []
    return [
        "\n\n".join(turn["content"] for turn in session)
        for stack in stacks[number : number + 1]
        for session in stack["haystack_sessions"]
    ]


def memorybank(language: str) -> list[str]:
    """The dialogues of a day each."""
    bank = _json("memorybank", f"memory_bank_{language}.json") or {}
    return [
        "\n".join(f"{turn['query']}\n{turn['response']}" for turn in day)
        for person in bank.values()
        for day in person["history"].values()
    ]


def locomo() -> list[str]:
    """The conversations, whole."""
    return [
        "\n".join(
            turn["text"]
            for turns in talk["conversation"].values()
            if isinstance(turns, list)
            for turn in turns
        )
        for talk in _json("locomo", "locomo10.json") or []
    ]


def passages(name: str) -> list[str]:
    """Passages of an encyclopedia with the questions on them."""
    found = _json("cjk", name) or {"data": []}
    return [
        "\n".join([passage["context"], *(asked["question"] for asked in passage["qas"])])
        for article in found["data"]
        for passage in article["paragraphs"]
    ]


def library(folder: Path) -> list[str]:
    """The modules of a package, each up to 20,000 characters."""
    return [path.read_text(encoding="utf-8")[:20_000] for path in sorted(folder.rglob("*.py"))]


def raw(folder: str) -> list[str]:
    """Transcripts as they are, JSON and all, in pieces; those with images left out."""
    paths = sorted((DATA / "transcripts" / folder).glob("*.json*"))
    return [piece for path in paths if "image" not in path.name for piece in raw_file(path)]


def raw_file(path: Path, size: int = 4_000) -> list[str]:
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [text[at : at + size] for at in range(0, len(text), size) if len(text) - at > size // 2]


def spoken(folder: str) -> list[str]:
    """The longer strings of transcripts: messages, and what tools gave; encoded bytes left out."""
    paths = sorted((DATA / "transcripts" / folder).glob("*.jsonl"))
    return [
        text[:20_000]
        for path in paths
        for line in path.read_text(encoding="utf-8").split("\n")
        if line.strip()
        for text in _strings(_line(line))
        if len(text) >= 200 and (" " in text[:400] or "\n" in text[:400])
    ]


def _line(line: str) -> Any:
    """A line's value; None for one of the few that are damaged."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
