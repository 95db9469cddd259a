"""Two processes sum floats on one GPU with the preloaded NCCL, to see without our engine whether ranks may share it. Called by the lease's row "nccl".

    LD_PRELOAD=libnccl.so.2 NCCL_MULTI_RANK_GPU_ENABLE=1 python3 nccl_pair.py [COUNT]      prints one JSON object: version, sums, microseconds of one
"""
import array
import ctypes
import json
import multiprocessing
import sys
import time

FLOAT, SUM = 7, 0  # ncclFloat32, ncclSum
ROUNDS = 50
SECONDS_MAX = 40


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def must(status, what):
    if status:
        raise RuntimeError(f"{what}: {status}")


def rank(number, name, count, results):
    try:
        results.put((number, summed(number, name, count)))
    except Exception as error:
        results.put((number, {"error": f"{type(error).__name__}: {error}"}))


def summed(number, name, count):
    cuda, nccl = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libnccl.so.2")
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    check = lambda status, what: must(status and f"{status} {(nccl.ncclGetLastError(None) or b'').decode()[:300]}", what)
    must(cuda.cudaSetDevice(0), "cudaSetDevice")
    buffer, communicator, version = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    must(cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(4 * count)), "cudaMalloc")
    given = array.array("f", [number + 1.0] * count)
    must(cuda.cudaMemcpy(buffer, ctypes.c_void_p(given.buffer_info()[0]), ctypes.c_size_t(4 * count), 1), "cudaMemcpy")
    check(nccl.ncclGetVersion(ctypes.byref(version)), "ncclGetVersion")
    check(nccl.ncclCommInitRank(ctypes.byref(communicator), 2, UniqueId.from_buffer_copy(name), number), "ncclCommInitRank")
    reduce = lambda: check(nccl.ncclAllReduce(buffer, buffer, ctypes.c_size_t(count), FLOAT, SUM, communicator, None), "ncclAllReduce")
    reduce()
    must(cuda.cudaDeviceSynchronize(), "cudaDeviceSynchronize")
    must(cuda.cudaMemcpy(ctypes.c_void_p(given.buffer_info()[0]), buffer, ctypes.c_size_t(4 * count), 2), "cudaMemcpy")
    begun = time.perf_counter()
    for _ in range(ROUNDS):
        reduce()
    must(cuda.cudaDeviceSynchronize(), "cudaDeviceSynchronize")
    took = time.perf_counter() - begun
    nccl.ncclCommDestroy(communicator)
    return {"version": version.value, "sums": sorted(set(given)), "us": 1e6 * took / ROUNDS}


def main(count=4096):
    processes = multiprocessing.get_context("spawn")
    name = UniqueId()
    must(ctypes.CDLL("libnccl.so.2").ncclGetUniqueId(ctypes.byref(name)), "ncclGetUniqueId")
    results = processes.Queue()
    ranks = [processes.Process(target=rank, args=(i, bytes(name), int(count), results), daemon=True) for i in range(2)]
    for one in ranks:
        one.start()
    by_rank = dict(results.get(timeout=SECONDS_MAX) for _ in ranks)
    print(json.dumps(next((s for s in by_rank.values() if "error" in s), by_rank[0])))
    return 0 if all(s.get("sums") == [3.0] for s in by_rank.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
