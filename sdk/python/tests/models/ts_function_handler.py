# A module-level entry point, which TorchServe calls with None once, when the model is loaded.
class Model:
    initialized = False

    def initialize(self, context):
        self.initialized = True
        self.batch_size = context.system_properties["batch_size"]


_service = Model()


def handle(data, context):
    if not _service.initialized:
        _service.initialize(context)
    if data is None:
        return None
    for i in range(len(data)):
        context.set_response_content_type(i, "text/x-shout")
    return [row["body"].upper() + "!" * _service.batch_size for row in data]
