"""An engine behind HTTP: a page, a JSON API, and an OpenAI-compatible chat endpoint (extra ``serve``).

>>> from shared_core import Passage, SelfReflectEngine
>>> from shared_core.retrieval import BM25Retriever
>>> engine = SelfReflectEngine(BM25Retriever([Passage("lamp", "The lamp of Vessen was lit in 1871.")]))
>>> app = create_app(engine)  # an ASGI application: uvicorn.run(app)
>>> app.title
'selfreflect'
"""

from shared_core.serve.app import create_app
from shared_core.serve.limits import Limits

__all__ = ["Limits", "create_app"]
