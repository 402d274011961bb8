"""LangChain's OpenAI classes against an address: `with_langchain.py BASE_URL MODEL ACTING EMBEDDING`. Prints JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel

BASE_URL, MODEL, ACTING, EMBEDDING = sys.argv[1:]
QUESTION = "What is the capital of France?"
common: dict[str, Any] = {"base_url": BASE_URL, "api_key": "none", "max_retries": 0}


class Weather(BaseModel):
    """The weather of a city."""

    city: str


class City(BaseModel):
    city: str
    people: int


async def batch(model: ChatOpenAI) -> list[str]:
    answers = await model.abatch([QUESTION] * 3)
    return [str(answer.content) for answer in answers]


chat = ChatOpenAI(model=MODEL, max_tokens=8, stream_usage=True, **common)
acting = ChatOpenAI(model=ACTING, **common)
parts = list(chat.stream(QUESTION))
city: Any = acting.with_structured_output(City, method="json_schema").invoke(QUESTION)
usage = next(part.usage_metadata for part in reversed(parts) if part.usage_metadata)
# Without a check of lengths: that one needs the tokenizer of OpenAI's own models, from the network.
vectors = OpenAIEmbeddings(model=EMBEDDING, check_embedding_ctx_length=False, **common)
print(
    json.dumps(
        {
            "whole": chat.invoke(QUESTION).content,
            "streamed": "".join(str(part.content) for part in parts),
            "tokens": usage["output_tokens"],
            "batch": asyncio.run(batch(chat)),
            "completion": OpenAI(model=MODEL, max_tokens=8, **common).invoke("Once upon"),
            "tools": acting.bind_tools([Weather]).invoke(QUESTION).tool_calls,
            "structured": city.model_dump(),
            "vectors": [len(vector) for vector in vectors.embed_documents(["One text", "Another"])],
        }
    )
)
