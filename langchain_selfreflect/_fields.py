"""Field types that our classes share, for editors and mypy; the receiving code checks values at run time."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langchain_core.runnables import Runnable
from pydantic import SkipValidation

from shared_core.facades.gated_retriever import GateName
from shared_core.facades.reranker import RerankMethod
from shared_core.lm.base import LanguageModel
from shared_core.lm.chat import LogprobsMode
from shared_core.reading.base import Reader, SupportScorer
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.settings import GuaranteeName, PipelineName

AnyRetriever = Annotated[Runnable[str, Any] | Retriever, SkipValidation]
"""A retriever of LangChain, a runnable from text to documents, or one of ours."""

AnyModel = Annotated[Runnable[Any, Any] | LanguageModel, SkipValidation]
"""A chat model, a runnable around one, or a backend of ours."""

Count = Annotated[int, SkipValidation]
Figure = Annotated[float, SkipValidation]
Gate = Annotated[GateName, SkipValidation]
Guarantee = Annotated[GuaranteeName, SkipValidation]
Logprobs = Annotated[LogprobsMode, SkipValidation]
Method = Annotated[RerankMethod, SkipValidation]
Pipeline = Annotated[PipelineName, SkipValidation]
OnAbstain = Annotated[Literal["say", "show", "raise", "fallback"], SkipValidation]
OurEmbedder = Annotated[Embedder, SkipValidation]
OurJudge = Annotated[SupportScorer, SkipValidation]
OurReader = Annotated[Reader, SkipValidation]
