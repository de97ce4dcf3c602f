import msgspec
import pytest

from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.log import chain as chain_module
from tidemill.pipeline.log.chain import PAGE, Chain, page_names, page_out, read_chain
from tidemill.pipeline.log.file import FileRef


class MemoryFiles:
    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.reads = 0

    async def put(self, name: str, content: bytes) -> FileRef:
        assert self.contents.setdefault(name, content) == content
        return FileRef(name, len(content), "-")

    async def read(self, ref: FileRef) -> bytes:
        self.reads += 1
        return self.contents[ref.name]


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


async def grown(files: MemoryFiles, count: int) -> Chain[int]:
    chain: Chain[int] = Chain()
    for number in range(count):
        chain = await page_out(chain.add(number), files, "pages")
    return chain


async def items(chain: Chain[int], files: MemoryFiles, start: int = 0, stop: int = 10**9) -> list[int]:
    return [item async for item in read_chain(chain, files, int, start, stop)]


async def test_items_come_back_in_order_wherever_they_lie(files: MemoryFiles) -> None:
    chain = await grown(files, 1000)

    assert await items(chain, files) == list(range(1000))
    for start, stop in [(0, 1), (63, 65), (500, 990), (870, 940), (990, 1000), (1000, 1001), (7, 7)]:
        assert await items(chain, files, start, stop) == list(range(1000))[start:stop]


async def test_a_document_stays_small_however_long_the_chain(files: MemoryFiles) -> None:
    sizes = []
    chain: Chain[int] = Chain()
    for number in range(0, 30_000, PAGE):
        chain = await page_out(chain.add(*range(number, number + PAGE)), files, "pages")
        sizes.append((len(chain.tail), len(chain.pages)))

    assert max(tail for tail, _ in sizes) < 2 * PAGE
    assert max(pages for _, pages in sizes) <= 3 * PAGE
    assert any(page.level == 1 for page in chain.pages)
    assert await items(chain, files) == list(range(chain.next))


async def test_the_newest_items_need_no_page(files: MemoryFiles) -> None:
    chain = await grown(files, 1000)
    await items(chain, files, chain.next - PAGE)

    assert files.reads == 0


async def test_what_is_dropped_is_gone_and_the_rest_is_not(files: MemoryFiles) -> None:
    chain = (await grown(files, 1000)).drop_below(100)

    assert chain.drop_below(50) == chain
    assert await items(chain, files) == list(range(100, 1000))
    assert chain.pages[0].first == 64
    assert await items(chain.drop_below(990), files) == list(range(990, 1000))
    assert await items(chain.drop_below(2000), files) == []
    assert chain.drop_below(2000).add(7).next == 1001


async def test_growing_after_a_drop_loses_nothing(files: MemoryFiles) -> None:
    chain = (await grown(files, 100)).drop_below(90)
    for number in range(100, 400):
        chain = await page_out(chain.add(number), files, "pages")

    assert await items(chain, files) == list(range(90, 400))


async def test_every_page_is_named_and_dropped_ones_are_not(files: MemoryFiles) -> None:
    chain: Chain[int] = Chain()
    for number in range(0, 20_000, PAGE):
        chain = await page_out(chain.add(*range(number, number + PAGE)), files, "pages")

    assert {name async for name in page_names(chain, files)} == set(files.contents)
    kept = {name async for name in page_names(chain.drop_below(3000), files)}
    assert kept < set(files.contents)
    assert f"pages/0-{2944}-{3007}" in kept
    assert f"pages/0-{2880}-{2943}" not in kept


async def test_a_page_of_a_newer_release_is_refused(
    files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_module, "FORMAT", 2)
    chain = await grown(files, 200)
    monkeypatch.undo()

    with pytest.raises(ForeignState, match="format 2"):
        await items(chain, files)


async def test_a_chain_survives_its_document(files: MemoryFiles) -> None:
    chain = await grown(files, 300)

    assert msgspec.convert(msgspec.to_builtins(chain), Chain[int]) == chain
