"""From a ChatAgent request to its answer: the one path that gateway and MLflow model share."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from app.admission import Admission
from app.engines.base import Engine, JSONObject
from app.errors import ChatServerError
from app.ids import new_id
from app.schemas.answer import Answer, Assembler
from app.schemas.chat_agent import ChatAgentRequest, Context, require_few_messages
from app.schemas.chat_agent_answer import ChunkStream
from app.schemas.conversation import engine_messages, fold_system
from app.schemas.sampling import CustomInputs, engine_parameters
from app.schemas.validation import parse
from app.sglang_guard import check_survivable
from app.sglang_quirks import check_supported


@dataclass(frozen=True)
class Chat:
    """A checked request, ready for the engine."""

    answer_id: str
    body: JSONObject
    has_tools: bool
    stream: bool
    warnings: tuple[str, ...] = ()
    conversation_id: str | None = None
    user_id: str | None = None

    def assembler(self) -> Assembler:
        """A fresh assembler for this request's answer."""
        return Assembler(self.answer_id, has_tools=self.has_tools)


@dataclass(frozen=True)
class Text:
    """A piece of a streamed answer."""

    text: str


@dataclass(frozen=True)
class End:
    """The end of a streamed answer: the text not yet sent, and the whole answer."""

    text: str
    answer: Answer


class ChatService:
    """Answers ChatAgent requests with an engine.

    Args:
        engine: to ask.
        admission: to its places; a request that was checked waits there for its turn.
        max_messages: most messages in one request.
    """

    def __init__(self, engine: Engine, admission: Admission, max_messages: int) -> None:
        self.engine = engine
        self._admission = admission
        self._max_messages = max_messages

    def prepare(self, body: JSONObject) -> Chat:
        """Check a request and translate it for the engine.

        Raises:
            InvalidRequest: names the field and the fix.
            EngineUnavailable: the engine is not up.
        """
        require_few_messages(body.get("messages"), self._max_messages)
        request = parse(ChatAgentRequest, body)
        inputs = parse(CustomInputs, request.custom_inputs or {}, "custom_inputs")
        messages = engine_messages(request.messages)
        info = self.engine.info
        if not info.takes_system:
            messages = fold_system(messages)
        warnings = check_supported(inputs, info)
        warnings += _warn_of_ignored(request.ignored_fields)
        if any(message.attachments for message in request.messages):
            warnings.append("attachments are not sent to the model")
        body = engine_parameters(inputs)
        check_survivable(body, info, "custom_inputs.")
        body |= {"model": info.models[0], "messages": messages}
        context = request.context or Context()
        if user := context.user_id or context.conversation_id:
            body["user"] = user
        return Chat(
            answer_id=new_id(),
            body=body,
            has_tools=bool(inputs.tools),
            stream=bool(request.stream),
            warnings=tuple(warnings),
            conversation_id=context.conversation_id,
            user_id=context.user_id,
        )

    async def complete(self, chat: Chat, caller: str | None = None) -> Answer:
        """The whole answer at once.

        Raises:
            Overloaded: there is no place at the engine, or none became free in time.
            ChatServerError: what went wrong in the engine.
        """
        assembler = chat.assembler()
        async with self._admission.slot(caller):
            events = await self.engine.complete(chat.body)
        for event in events:
            assembler.feed(event)
        return assembler.finish()[1]

    async def stream(
        self, chat: Chat, caller: str | None = None
    ) -> AsyncGenerator[Text | End, None]:
        """The answer piece by piece; the pieces of ``Text`` and ``End`` join to its content.

        Raises the same errors. The place at the engine is held until the stream is closed.
        """
        chunks = ChunkStream(chat.assembler())
        try:
            async with (
                self._admission.slot(caller),
                aclosing(self.engine.stream(chat.body)) as batches,
            ):
                async for batch in batches:
                    # What arrived together leaves together: one write for one read.
                    text = chunks.push("".join(map(chunks.assembler.feed, batch)))
                    if text:
                        yield Text(text)
            last_text, answer = chunks.finish()
        except ChatServerError:
            if text := chunks.take():
                yield Text(text)
            raise
        yield End(last_text, answer)


def _warn_of_ignored(fields: list[str]) -> list[str]:
    """Where fields belong that MLflow drops without a word. Only names that we know are shown."""
    misplaced = [name for name in fields if name in CustomInputs.model_fields]
    if misplaced:
        return [f"ignored at the top level, belongs in custom_inputs: {', '.join(misplaced)}"]
    if fields:
        return [f"{len(fields)} unknown top-level field(s) ignored"]
    return []
