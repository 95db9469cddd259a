"""A TorchServe handler that says where it computes."""
import os


def handle(data, context):
    if data is None:
        return None
    here = {"pid": os.getpid(), "name": os.environ["BATON_WORKER_NAME"], "gpu_id": context.system_properties["gpu_id"],
            "visible": os.environ.get("CUDA_VISIBLE_DEVICES"), "threads": os.environ.get("OMP_NUM_THREADS"),
            "cores": sorted(os.sched_getaffinity(0))}
    return [here for _ in data]
