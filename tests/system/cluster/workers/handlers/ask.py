"""A worker model that calls other models: an LLM, and another worker model."""
from baton_worker import Handler


class Ask(Handler):
    def initialize(self, context):
        super().initialize(context)
        self.client = context.client(timeout=30)

    def inference(self, requests):
        return [self.answer(r.body.decode()) for r in requests]

    def answer(self, question):
        generated = self.client.generate(question, max_tokens=8, temperature=0).text
        pieces = self.client.infer_stream("echo", body=generated.encode())  # a word each
        return {"llm": generated, "worker": b"".join(p.body for p in pieces).decode()}
