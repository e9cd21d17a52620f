"""The life of remote sandboxes, and what comes of it when the service fails."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.domain.outcome import Returned, Unavailable
from assay.errors import ConfigurationError, SandboxUnavailableError
from assay.runners.daytona.owner import PROCESS, SERVER, labels_of
from assay.runners.daytona.runner import DaytonaRunner
from support.daytona_stand_in import KEY, DaytonaStandIn
from support.sandbox import run, value_of

TRACES = Path(__file__).parents[3] / "docs" / "examples" / "traces.json"
SAME = "def evaluate(inputs, outputs, trace):\n    return inputs\n"


async def started(service: DaytonaStandIn, **options: float) -> DaytonaRunner:
    return await DaytonaRunner.start(
        api_key=KEY,
        api_url=service.url,
        target="eu",
        snapshot="ours",
        store="a store",
        idle_s=options.get("idle_s", 300.0),
        most=int(options.get("most", 32)),
    )


async def until(holds: Callable[[], object]) -> None:
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def a_dead_pid() -> int:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await process.wait()
    return process.pid


async def test_a_revision_has_one_warm_sandbox_which_the_end_of_the_server_deletes() -> None:
    async with DaytonaStandIn() as service:
        runner = await started(service)
        for _ in range(3):
            assert await value_of(runner, SAME, 1) == 1
        assert len(service.boxes) == 1
        assert await value_of(runner, SAME, 1, project_id="other") == 1
        assert await value_of(runner, SAME, 1, number=2) == 1
        assert len(service.boxes) == 3
        assert len(set(service.executed)) == 3
        await runner.close()
        assert service.boxes == {}


async def test_a_sandbox_is_asked_for_as_the_operator_says_without_network_and_with_an_end_of_its_own() -> None:
    async with DaytonaStandIn() as service:
        runner = await started(service)
        await value_of(runner, SAME, 1)
        await runner.close()
    [asked] = service.created
    assert (asked["snapshot"], asked["target"]) == ("ours", "eu")
    assert asked["networkBlockAll"] is True
    assert (asked["autoStopInterval"], asked["autoDeleteInterval"]) == (6, 0)
    assert labels_of("a store").items() <= asked["labels"].items()


async def test_a_sandbox_nobody_used_for_a_while_is_deleted() -> None:
    async with DaytonaStandIn() as service:
        runner = await started(service, idle_s=0.2)
        await value_of(runner, SAME, 1)
        await until(lambda: not service.boxes)
        assert await value_of(runner, SAME, 1) == 1
        await runner.close()


async def test_the_one_unused_for_longest_makes_room_for_another() -> None:
    async with DaytonaStandIn() as service:
        runner = await started(service, most=2)
        values = await asyncio.gather(*(value_of(runner, SAME, number, number=number) for number in range(5)))
        assert values == [0, 1, 2, 3, 4]
        assert len(service.created) == 5
        await until(lambda: len(service.boxes) <= 2)
        await runner.close()


async def test_what_a_dead_process_left_is_deleted_at_start_and_what_others_use_is_not() -> None:
    ours = labels_of("a store")
    dead = await a_dead_pid()
    async with DaytonaStandIn() as service:
        left = service.add({SERVER: ours[SERVER], PROCESS: f"{dead}-1"})
        reused = service.add({SERVER: ours[SERVER], PROCESS: f"{ours[PROCESS].split('-')[0]}-1"})
        kept = {
            service.add({SERVER: ours[SERVER], PROCESS: labels_of("other")[PROCESS]}),
            service.add({SERVER: "another", PROCESS: f"{dead}-1"}),
            service.add({"made": "by hand"}),
        }
        runner = await started(service)
        assert {left, reused}.isdisjoint(service.boxes)
        assert set(service.boxes) == kept
        await runner.close()
        assert set(service.boxes) == kept


HELD = """
import asyncio, sys
from assay.runners.daytona.runner import DaytonaRunner
async def main():
    runner = await DaytonaRunner.start(api_key=sys.argv[1], api_url=sys.argv[2], store="a store")
    await runner.inspect("python", "")
    print("ready", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_what_a_killed_server_left_is_deleted_at_the_next_start() -> None:
    async with DaytonaStandIn() as service:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HELD, KEY, service.url, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        [left] = service.boxes
        second = await started(service)
        assert left in service.boxes
        await second.close()
        process.kill()
        await process.wait()
        third = await started(service)
        assert service.boxes == {}
        await third.close()


async def test_a_sandbox_that_was_lost_is_replaced() -> None:
    async with DaytonaStandIn() as service:
        runner = await started(service)
        assert await value_of(runner, SAME, 1) == 1
        service.remove(next(iter(service.boxes)))
        assert await value_of(runner, SAME, 2) == 2
        await runner.close()


@pytest.mark.parametrize("part", ["sandbox", "bulk-upload", "execute"])
@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_what_the_service_fails_to_do_is_never_the_authors_fault(part: str, status: int) -> None:
    async with DaytonaStandIn() as service:
        runner = await started(service)
        service.fail[part] = status
        outcomes = await run(runner, SAME, 1, 2)
        assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable]
        assert all("Daytona" in outcome.cause for outcome in outcomes if isinstance(outcome, Unavailable))
        with pytest.raises(SandboxUnavailableError, match="Daytona"):
            await runner.inspect("python", SAME)
        service.fail.clear()
        assert await value_of(runner, SAME, 1) == 1
        await runner.close()
        assert service.boxes == {}


async def test_a_failure_halfway_keeps_what_was_answered() -> None:
    source = "def evaluate(n, o, t):\n    return 'x' * 200_000\n"
    async with DaytonaStandIn() as service:
        runner = await started(service)
        outcomes = asyncio.create_task(run(runner, source, *range(12)))
        await until(lambda: service.executed)
        service.fail["execute"] = 500
        kinds = [type(outcome) for outcome in await outcomes]
        assert kinds == [Returned] * 6 + [Unavailable] * 6
        await runner.close()


async def test_a_service_that_cannot_be_reached_is_unavailable_and_the_server_unready() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/api"
        runner = await DaytonaRunner.start(api_key=KEY, api_url=url)
        assert "Daytona" in str(await runner.unready())
        [outcome] = await run(runner, SAME, 1)
        assert isinstance(outcome, Unavailable)
        await runner.close()


async def test_a_snapshot_without_node_is_the_operators_matter() -> None:
    async with DaytonaStandIn(node=None) as service:
        runner = await started(service)
        assert await value_of(runner, SAME, 1) == 1
        [outcome] = await run(runner, "const evaluate = () => 1", 1, language="javascript")
        assert isinstance(outcome, Unavailable)
        assert "node" in outcome.cause
        with pytest.raises(SandboxUnavailableError, match="node"):
            await runner.inspect("typescript", "const evaluate = () => 1")
        await runner.close()


async def assay_eval(tmp_path: Path, **variables: str) -> tuple[int, str]:
    (tmp_path / "check.py").write_text(SAME.replace("return inputs", "return bool(outputs)"))
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("assay"),
        *("eval", "check.py", "--traces", TRACES, "--format", "json"),
        cwd=tmp_path,
        env={**os.environ, "ASSAY_CODE_RUNNER": "daytona", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return process.returncode or 0, printed.decode()


async def test_the_command_line_is_set_up_by_variables_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with DaytonaStandIn() as service:
        _, printed = await assay_eval(tmp_path, DAYTONA_API_KEY=KEY, DAYTONA_API_URL=service.url)
        assert '"scored"' in printed
        assert '"daytona (remote sandbox)"' in printed
        assert service.boxes == {}


async def test_the_command_line_says_what_is_missing(tmp_path: Path) -> None:
    code, printed = await assay_eval(tmp_path, DAYTONA_API_KEY="")
    assert code != 0
    assert "needs DAYTONA_API_KEY" in printed
    assert "Traceback" not in printed


async def test_a_missing_key_is_told_at_start() -> None:
    with pytest.raises(ConfigurationError, match="DAYTONA_API_KEY"):
        await DaytonaRunner.start(api_key=None)


async def test_a_refused_key_is_told_at_start() -> None:
    async with DaytonaStandIn() as service:
        with pytest.raises(ConfigurationError, match="DAYTONA_API_KEY cannot be used"):
            await DaytonaRunner.start(api_key="another key", api_url=service.url)


async def test_a_missing_sdk_is_told_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith("assay.runners.daytona.") and "runner" not in name[22:]
    ]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "daytona", None)
    with pytest.raises(ConfigurationError, match=r"install assay\[daytona\]"):
        await DaytonaRunner.start(api_key=KEY)
