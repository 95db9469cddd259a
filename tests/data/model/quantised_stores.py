"""How published formats store a quantised matrix, written from their descriptions. For weights [out, in] a function returns the numbers
that are meant, and the tensors that mean them, by the last part of their names. Used by make_quantised_goldens.py.

A number is a float32 product where the engine keeps it exactly, else rounded to the float that the docs name (BF16 or F16)."""
import numpy as np
import torch

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array))


def bfloat16(array):
    return tensor(array).to(torch.bfloat16).to(torch.float32).numpy()


def fp8(weights, block=None, per_output=False, scale_name="weight_scale", scale_type=torch.float32, scale_shape=None):
    """E4M3 with a scale for each block, each output, or all."""
    out, inputs = weights.shape
    rows, columns = block or ((1, inputs) if per_output else (out, inputs))
    down, across = -(-out // rows), -(-inputs // columns)
    padded = np.zeros((down * rows, across * columns), dtype=np.float32)
    padded[:out, :inputs] = weights
    largest = abs(padded).reshape(down, rows, across, columns).max(axis=(1, 3))
    if scale_type == torch.float8_e8m0fnu:
        scales = tensor(np.exp2(np.ceil(np.log2(largest / 448)))).to(scale_type)
    else:
        scales = tensor(largest / 448).to(scale_type)
    wide = np.repeat(np.repeat(scales.to(torch.float32).numpy(), rows, axis=0), columns, axis=1)[:out, :inputs]
    numbers = tensor(np.clip(weights / wide, -448, 448)).to(torch.float8_e4m3fn)
    return bfloat16(numbers.to(torch.float32).numpy() * wide), {"weight": numbers, scale_name: scales.reshape(scale_shape or (down, across))}


def levels(weights, groups, bits, symmetric, scale_type):
    """Codes [out, in], zero points and scales [out, groups]; `groups` is the group of each input."""
    count, top = groups.max() + 1, 2**bits - 1
    codes = np.zeros(weights.shape, dtype=np.uint32)
    zeros, scales = np.zeros((len(weights), count), dtype=np.uint32), np.zeros((len(weights), count), dtype=np.float32)
    for group in range(count):
        part = weights[:, groups == group]
        low, high = np.minimum(part.min(axis=1), 0), np.maximum(part.max(axis=1), 0)
        if symmetric:
            high = np.maximum(-low, high)
            low = -high
        step = tensor((high - low) / top).to(scale_type).to(torch.float32).numpy()
        zero = np.full(len(weights), 2 ** (bits - 1)) if symmetric else np.clip(np.rint(-low / step), 0, top)
        codes[:, groups == group] = np.clip(np.rint(part / step[:, None]) + zero[:, None], 0, top)
        zeros[:, group], scales[:, group] = zero, step
    return codes, zeros, scales


def meant(codes, zeros, scales, groups):
    return scales[:, groups] * (codes.astype(np.float32) - zeros[:, groups].astype(np.float32))


def words(codes, bits):
    """Neighbours of the last axis in words of 32 bits, the first in the low bits."""
    count = 32 // bits
    parts = codes.astype(np.uint32).reshape(*codes.shape[:-1], -1, count)
    return sum(parts[..., i] << np.uint32(bits * i) for i in range(count)).astype(np.uint32).view(np.int32)


def consecutive(inputs, group):
    return np.arange(inputs) // (inputs if group == -1 else group)


def gptq(weights, group, bits=4, symmetric=True, form="gptq", order=None):
    groups = consecutive(weights.shape[1], group)
    if order is not None:
        groups = groups[order.permutation(len(groups))]
    codes, zeros, scales = levels(weights, groups, bits, symmetric, torch.float16)
    packed = words(zeros.T, bits).view(np.uint32)
    if form == "gptq":
        packed = packed - np.uint32(sum(1 << i for i in range(0, 32, bits)))  # wraps round
    arrays = {"qweight": words(codes, bits).T, "qzeros": packed.view(np.int32), "scales": scales.T.astype(np.float16),
              "g_idx": groups.astype(np.int32)}
    numbers = meant(codes, zeros, scales, groups)
    is_exact = order is None and (bits < 8 or symmetric)
    return numbers if is_exact else numbers.astype(np.float16).astype(np.float32), {key: tensor(value) for key, value in arrays.items()}


def awq(weights, group):
    groups = consecutive(weights.shape[1], group)
    codes, zeros, scales = levels(weights, groups, 4, False, torch.float16)
    moved = lambda array: words(array.reshape(len(array), -1, 8)[..., AWQ_ORDER].reshape(array.shape), 4)
    arrays = {"qweight": moved(codes.T), "qzeros": moved(zeros.T), "scales": scales.T.astype(np.float16)}
    return meant(codes, zeros, scales, groups), {key: tensor(value) for key, value in arrays.items()}


def packed(weights, group, bits=4, symmetric=True, order=None, scale_type=torch.bfloat16, is_exact=True):
    """pack-quantized of compressed-tensors."""
    groups = consecutive(weights.shape[1], group)
    if order is not None:
        groups = groups[order.permutation(len(groups))]
    codes, zeros, scales = levels(weights, groups, bits, symmetric, scale_type)
    tensors = {"weight_packed": tensor(words(codes, bits)), "weight_scale": tensor(scales).to(scale_type),
               "weight_shape": torch.tensor(weights.shape, dtype=torch.int64)}
    if not symmetric:
        tensors["weight_zero_point"] = tensor(words(zeros.T, bits).T)
    if order is not None:
        tensors["weight_g_idx"] = tensor(groups.astype(np.int32))
    numbers = meant(codes, zeros, scales, groups)
    return numbers if is_exact else bfloat16(numbers), tensors


def int8(weights, scale_type=torch.bfloat16):
    """int-quantized of compressed-tensors, with a scale for each output."""
    scales = tensor(abs(weights).max(axis=1, keepdims=True) / 127.5).to(scale_type)
    steps = scales.to(torch.float32).numpy()
    codes = np.clip(np.rint(weights / steps), -128, 127).astype(np.int8)
    numbers = codes.astype(np.float32) * steps
    is_exact = scale_type == torch.bfloat16
    return numbers if is_exact else bfloat16(numbers), {"weight": tensor(codes), "weight_scale": scales}


def e2m1_codes(numbers):
    """The nearest of the 16 numbers of E2M1."""
    magnitudes = abs(abs(numbers)[..., None] - E2M1).argmin(axis=-1)
    return (magnitudes + 8 * np.signbit(numbers)).astype(np.uint8)


def e2m1_numbers(codes):
    return np.where(codes > 7, -E2M1[codes & 7], E2M1[codes & 7]).astype(np.float32)


def nibbles(codes):
    return codes[..., ::2] | codes[..., 1::2] << 4


def nvfp4(weights, is_modelopt=False):
    """E2M1 with an E4M3 scale for 16 inputs and a float32 scale for all."""
    out, inputs = weights.shape
    parts = weights.reshape(out, -1, 16)
    overall = np.float32(448 * 6 / abs(weights).max())
    scales = tensor(abs(parts).max(axis=-1) / 6 * overall).to(torch.float8_e4m3fn)
    if is_modelopt:
        overall = np.float32(1) / overall
        steps = scales.to(torch.float32).numpy() * overall
    else:
        steps = scales.to(torch.float32).numpy() / overall
    codes = e2m1_codes(parts / steps[..., None])
    numbers = bfloat16((e2m1_numbers(codes) * steps[..., None]).reshape(out, inputs))
    names = ("weight", "weight_scale_2") if is_modelopt else ("weight_packed", "weight_global_scale")
    whole = torch.tensor(overall) if is_modelopt else torch.tensor([overall])
    return numbers, {names[0]: tensor(nibbles(codes.reshape(out, inputs))), "weight_scale": scales, names[1]: whole}


def mxfp4(weights):
    """Blocks and scales [.., in / 32, 16] and [.., in / 32]: E2M1 with powers of two."""
    parts = weights.reshape(*weights.shape[:-1], -1, 32)
    exponents = np.floor(np.log2(np.maximum(abs(parts).max(axis=-1), 1e-30))) - 2
    steps = np.exp2(exponents)[..., None].astype(np.float32)
    codes = e2m1_codes(parts / steps)
    numbers = (e2m1_numbers(codes) * steps).reshape(weights.shape)
    return numbers, {"blocks": tensor(nibbles(codes)), "scales": tensor((exponents + 127).astype(np.uint8))}


def linear_mxfp4(weights):
    """mxfp4-pack-quantized of compressed-tensors."""
    numbers, stored = mxfp4(weights)
    return numbers, {"weight_packed": stored["blocks"].reshape(len(weights), -1), "weight_scale": stored["scales"]}
