"""Long-running job that reports progress, and a client that follows it.

windlass worker progress:app
python progress.py
"""

import asyncio

from windlass import Context, Windlass

app = Windlass()


@app.task
async def digest(ctx: Context, pages: int) -> int:
    words = 0
    for page in range(pages):
        await asyncio.sleep(0.2)
        words += 100
        ctx.emit({"page": page, "words": words})
        ctx.progress(page + 1, pages, f"page {page + 1} of {pages}")
    return words


async def main() -> None:
    async with app:
        job = await digest.using(delay="200ms").aenqueue(3)
        async for event in job.events():
            if event.kind == "emitted":
                print(event.value)
        print("words:", await job)


if __name__ == "__main__":
    asyncio.run(main())

# prints:
# {'page': 0, 'words': 100}
# {'page': 1, 'words': 200}
# {'page': 2, 'words': 300}
# words: 300
