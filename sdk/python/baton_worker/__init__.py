"""Serve your own model beside a Baton cluster's LLMs. See docs/apis/workers/first.md for the rest.

    # handler.py. In nodes.toml: command = ["python3", "-m", "baton_worker", "handler.py"].
    from baton_worker import Handler

    class Upper(Handler):
        def inference(self, requests):
            return [request.body.upper() for request in requests]

docs/apis/workers/python.md has the rest.
"""

from . import needs

if not needs.is_asked():
    needs.need_sdk()
    from baton_client.tensors import Tensor

    from .handler import Context, Handler, Request, RequestError, Response, Unusable
    from .metrics import MetricError

__all__ = ["Context", "Handler", "MetricError", "Request", "RequestError", "Response", "Tensor", "Unusable"]
