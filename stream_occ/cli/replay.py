"""Publish recordings, or synthetic wearers, as devices would."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_occ.cli._common import (
    HostOption,
    JsonOption,
    MqttConfigOption,
    PortOption,
    ProgressReport,
    QuietOption,
    progress,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simulators.replay import ReplayReport
    from simulators.sources import Choice
    from stream_occ.samples import Recording

EXAMPLES = (
    "stream-occ replay --dataset mobifall --data mobifall.zip --device w1 --people 2 --activities FOL,WAL --speed 20",
    "stream-occ replay --dataset weda-fall --data weda-fall.zip --device 'watch-{person}' --falls --host broker.lan",
    "stream-occ replay --synthetic 3 --minutes 30 --fall-count 4 --speed 20 --json truth.json",
    "stream-occ replay --dataset mobifall --data mobifall.zip --people 2 --activities WAL --fault stuck:3",
)
TOLD_AHEAD_S = 1.0


def command(
    dataset: Annotated[str | None, typer.Option("--dataset", help="Data set by name, for example mobifall.")] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="PATH", help="Its folder or archive.")] = None,
    variant: Annotated[str | None, typer.Option("--variant", help="Version of a data set that has several.")] = None,
    device: Annotated[
        str, typer.Option("--device", metavar="ID", help="Device id; with {person} in it, one device a person.")
    ] = "replay",
    people: Annotated[str | None, typer.Option("--people", metavar="A,B", help="These people alone.")] = None,
    activities: Annotated[
        str | None, typer.Option("--activities", metavar="A,B", help="These activities alone.")
    ] = None,
    falls: Annotated[
        bool | None, typer.Option("--falls/--no-falls", help="Falls alone, or none. Default: all recordings.")
    ] = None,
    synthetic: Annotated[
        int | None,
        typer.Option("--synthetic", metavar="N", min=1, max=1000, help="N synthetic wearers in place of a data set."),
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.1, max=10_080, help="Synthetic: length of the lives.")
    ] = 10.0,
    fall_count: Annotated[
        int, typer.Option("--fall-count", min=0, max=10_000, help="Synthetic: falls of each wearer.")
    ] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Synthetic: the same seed gives the same lives.")] = 0,
    speed: Annotated[float, typer.Option("--speed", help="1 is real time.")] = 1.0,
    loop: Annotated[bool, typer.Option("--loop", help="Start over at the end, until Ctrl-C.")] = False,
    batch_s: Annotated[float, typer.Option("--batch-s", min=0.005, max=10, help="Samples a message, s.")] = 0.25,
    pause_s: Annotated[
        float, typer.Option("--pause-s", min=0.001, max=86_400, help="Between two recordings, s.")
    ] = 2.0,
    config: MqttConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    topic: Annotated[
        str, typer.Option("--topic", metavar="PATTERN", help="Where to publish; {device} is the device's id.")
    ] = "wearables/{device}/imu",
    codec: Annotated[str, typer.Option("--codec", help="How messages are written: docs/codecs.md.")] = "json",
    fault: Annotated[
        str | None,
        typer.Option("--fault", metavar="NAME[:VALUE]", help="Put a fault into what is sent: docs/quality.md."),
    ] = None,
    resend: Annotated[
        bool,
        typer.Option("--resend", help="Number messages, keep them until detect has them, send them again till then."),
    ] = False,
    json_path: JsonOption = None,
    quiet: QuietOption = False,
) -> int:
    """Publish recordings with their own timing, QoS 1, one connection for all devices.

    Stamps are moved so that each device starts now; then they run by the recording's clock, so that at speed 20 they
    run ahead of the wall clock, and another replay to the same device should wait for the clock to catch up, or name
    another device. The values are not touched. --json writes what was played and when: the ground truth.
    Ctrl-C ends it in order. With --resend (for an input with resends: true) it ends with exit code 1 where detect does
    not say that it has all.
    """
    import secrets
    import time

    from simulators import replay as player
    from simulators.faults import load_fault
    from simulators.publisher import Publisher, check_device_id, check_topic
    from simulators.resending import ResendingPublisher, check_can_number
    from simulators.sources import SYNTHETIC_RATE_HZ, Choice
    from stream_occ.cli import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
    from stream_occ.cli._service import log_to_stderr, stop_on_signals
    from stream_occ.codecs import load_codec, sendable_codecs
    from stream_occ.config import adjusted_config
    from stream_occ.errors import UsageError
    from stream_occ.topics import Topics
    from stream_occ.wiring import link_options

    check_topic(topic)
    unused = [{"pattern": topic, "codec": codec, "profile": "declared"}]  # a configuration must name an input
    settings = adjusted_config(config, mqtt={"host": host, "port": port}, inputs=unused if config is None else None)
    log_to_stderr("warning")
    disturb = None if fault is None else load_fault(fault)
    encoder = load_codec(codec)
    if not hasattr(encoder, "encode"):
        raise UsageError("--codec", "be one that can be sent", codec, f"Replay as {', '.join(sendable_codecs())}")
    options = link_options(settings, f"stream-occ-replay-{secrets.token_hex(4)}")
    boot = secrets.randbits(32) if resend else None
    if boot is None:
        publisher = Publisher(options, topic)
    else:
        check_can_number(encoder, codec)
        publisher = ResendingPublisher(options, Topics(settings.mqtt.prefix), topic, boot=boot)
    choice = Choice(_names(people), _names(activities), falls)
    with progress(is_quiet=quiet) as report:
        streams, total_s = _streams(
            synthetic, dataset, data, variant, device, choice, (minutes, fall_count, seed), pause_s, report
        )
        for device_id in streams:
            check_device_id(device_id)
        stop = stop_on_signals()
        with publisher as publish:
            began_s = time.monotonic()
            result = player.replay(
                streams,
                publish,
                encoder,
                speed=speed,
                is_looped=loop,
                batch_s=batch_s,
                pause_s=pause_s if synthetic is None else 1.0 / SYNTHETIC_RATE_HZ,
                clock=player.WallClock(stop, publisher.pump),
                fault=disturb,
                boot=boot,
                on_progress=lambda _, due: report("Replaying (s)", int(due.due_s), 0 if loop else int(total_s)),
            )
    if isinstance(publisher, ResendingPublisher):
        result.n_acknowledged = result.n_messages - publisher.n_kept
        result.n_sent_again = publisher.n_again
    _tell(result, time.monotonic() - began_s, json_path, quiet)
    if result.n_acknowledged not in (None, result.n_messages):
        return EXIT_FAILED
    return EXIT_OK if result.is_complete or loop else EXIT_INTERRUPTED


def _streams(
    synthetic: int | None,
    dataset: str | None,
    data: Path | None,
    variant: str | None,
    device: str,
    choice: Choice,
    life: tuple[float, int, int],
    pause_s: float,
    report: ProgressReport,
) -> tuple[Mapping[str, Iterable[Recording]], float]:
    """What to play, and how long it lasts in the devices' time, s."""
    from simulators.sources import recorded_streams, synthetic_streams
    from stream_occ.datasets import open_dataset
    from stream_occ.errors import UsageError

    remedy = "Say what to replay: a data set, or synthetic wearers"
    if (dataset is None) != (data is None) or (synthetic is None) == (dataset is None):
        given = ", ".join(
            name for name, value in (("--synthetic", synthetic), ("--dataset", dataset), ("--data", data)) if value
        )
        raise UsageError("replay", "be given --dataset with --data, or --synthetic", given or "neither", remedy)
    if synthetic is not None:
        minutes, n_falls, seed = life
        lives = synthetic_streams(synthetic, device, duration_s=60 * minutes, n_falls=n_falls, seed=seed)
        return lives, max(one.duration_s for one in lives.values())
    assert dataset is not None
    assert data is not None
    with open_dataset(dataset, data, variant=variant) as source:
        recorded = recorded_streams(
            source, device, choice, lambda done, total: report("Reading recordings", done, total)
        )
    spans = [[int(r.block.t_ns.max() - r.block.t_ns[0]) for r in found if len(r.block)] for found in recorded.values()]
    return recorded, max(sum(lengths) / 1e9 + pause_s * (len(lengths) - 1) for lengths in spans)


def _names(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(name.strip() for name in text.split(",") if name.strip())


def _tell(result: ReplayReport, seconds: float, json_path: Path | None, quiet: bool) -> None:
    """One line on stdout, a second where stamps ran ahead, and the ground truth to --json."""
    from dataclasses import asdict

    from stream_occ.cli._common import counted, is_told, write_json
    from stream_occ.cli._service import say

    if is_told(json_path, quiet):
        say(
            f"{counted(result.n_recordings, 'recording')}, {counted(result.n_samples, 'sample')} in "
            f"{counted(result.n_messages, 'message')} "
            f"({result.n_bytes / 1e6:.1f} MB) in {seconds:.1f} s; at worst {result.behind_s:.2f} s behind"
        )
        if result.n_acknowledged is not None:
            say(
                f"detect has {result.n_acknowledged} of {counted(result.n_messages, 'message')}; "
                f"{result.n_sent_again} were sent again"
            )
        if result.ahead_s > TOLD_AHEAD_S:
            say(
                f"stamps end {math.ceil(result.ahead_s)} s ahead of the clock: wait so long before the next replay to "
                "the same device, or detect takes its clock for set back"
            )
    if json_path is not None:
        value = asdict(result)
        value["placed"] = [asdict(placed) for placed in result.placed]
        write_json(json_path, value)
