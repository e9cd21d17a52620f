"""Channels: made, read, changed, deleted, tested, and their log."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from assay.api.auth import MEMBERS
from assay.api.channels import (
    MOST_CHANNELS,
    changed_channel,
    demand_known_evaluators,
    load_channel,
    new_channel,
    test_channel,
)
from assay.api.guarded import guarded
from assay.api.routers.wiring import Id, Project, Wired
from assay.api.schemas.channels import (
    ChannelAnswer,
    ChannelChanges,
    ChannelList,
    DeliveryList,
    DeliveryQuery,
    NewChannel,
    NewChannelAnswer,
    TestAnswer,
    channel_answer,
    delivery_answer,
)
from assay.api.services import Services
from assay.errors import ConflictError, InvalidInputError, NotFoundError
from assay.ports import Page

ATTEMPTS = 3

router = APIRouter(prefix="/api/v1/channels", route_class=guarded(MEMBERS), tags=["channels"])


@router.get("")
async def list_channels(services: Wired, project_id: Project) -> ChannelList:
    """List all channels of the project, newest first."""
    async with services.store.snapshot() as snapshot:
        found = await snapshot.list_channels(project_id)
    return ChannelList(channels=[channel_answer(channel) for channel in found])


@router.post("", status_code=201)
async def create_channel(
    services: Wired, project_id: Project, fields: NewChannel, request: Request, response: Response
) -> NewChannelAnswer:
    """Make a channel. A webhook's signing secret is answered here only, and only when it was left out."""
    made = await new_channel(services, project_id, fields)
    async with services.store.transaction() as transaction:
        if len(await transaction.list_channels(project_id)) >= MOST_CHANNELS:
            raise InvalidInputError(f"This project has {MOST_CHANNELS} channels, which is the most; delete one first.")
        await demand_known_evaluators(transaction, made.channel)
        await transaction.add_channel(made.channel)
    response.headers["location"] = f"{request.url.path.rstrip('/')}/{made.channel.id}"
    return NewChannelAnswer(**channel_answer(made.channel).model_dump(by_alias=False), secret=made.secret)


@router.get("/{id}")
async def get_channel(services: Wired, project_id: Project, channel_id: Id) -> ChannelAnswer:
    """Return one channel."""
    async with services.store.snapshot() as snapshot:
        return channel_answer(await load_channel(snapshot, project_id, channel_id))


@router.put("/{id}")
async def put_channel(services: Wired, project_id: Project, channel_id: Id, fields: ChannelChanges) -> ChannelAnswer:
    """Change a channel; what is not named stays. What GET answered can be sent back."""
    return await _change(services, project_id, channel_id, fields)


@router.patch("/{id}")
async def patch_channel(services: Wired, project_id: Project, channel_id: Id, fields: ChannelChanges) -> ChannelAnswer:
    """Change a channel; what is not named stays."""
    return await _change(services, project_id, channel_id, fields)


@router.delete("/{id}", status_code=204)
async def delete_channel(services: Wired, project_id: Project, channel_id: Id) -> None:
    """Delete a channel with its log; what it has not been told yet is told nobody."""
    async with services.store.transaction() as transaction:
        if not await transaction.delete_channel(project_id, channel_id):
            raise NotFoundError(f"There is no channel {channel_id[:80]!r} in this project.")


@router.post("/{id}/test")
async def post_test(services: Wired, project_id: Project, channel_id: Id) -> TestAnswer:
    """Send a test notification now, and answer what came of it."""
    async with services.store.snapshot() as snapshot:
        channel = await load_channel(snapshot, project_id, channel_id)
    return await test_channel(services, channel)


@router.get("/{id}/deliveries")
async def list_deliveries(
    services: Wired, project_id: Project, channel_id: Id, query: Annotated[DeliveryQuery, Query()]
) -> DeliveryList:
    """List what was told or tried, newest first; the newest thousand lines are kept."""
    async with services.store.snapshot() as snapshot:
        await load_channel(snapshot, project_id, channel_id)
        page = Page(limit=query.limit, cursor=query.cursor)
        found, cursor = await snapshot.list_deliveries(channel_id, page)
        owed = await snapshot.count_notifications(channel_id)
    return DeliveryList(deliveries=[delivery_answer(line) for line in found], owed=owed, next_cursor=cursor)


async def _change(services: Services, project_id: str, channel_id: str, fields: ChannelChanges) -> ChannelAnswer:
    """Lay the fields over what is stored; a URL is looked at outside of the transaction, so begin again if it moved."""
    for _ in range(ATTEMPTS):
        async with services.store.snapshot() as snapshot:
            stored = await load_channel(snapshot, project_id, channel_id)
        changed = await changed_channel(services, stored, fields)
        async with services.store.transaction() as transaction:
            current = await transaction.channel_for_update(project_id, channel_id)
            if current is None or current.updated_at_ns != stored.updated_at_ns:
                continue
            if changed.evaluator_ids != stored.evaluator_ids:
                await demand_known_evaluators(transaction, changed)
            await transaction.update_channel(changed)
        return channel_answer(changed)
    raise ConflictError("Somebody else changes this channel at the same time; read it again and repeat.")
