"""NumPy's types by the numbers of ONNX's TensorProto.DataType, and back."""
import ml_dtypes
import numpy as np

# The position is the number; None where NumPy and ml_dtypes have no such type (undefined), object for strings.
BY_NUMBER = [
    np.dtype(t) if t is not None else None
    for t in (
        None, np.float32, np.uint8, np.int8, np.uint16, np.int16, np.int32, np.int64, object, np.bool_, np.float16,
        np.float64, np.uint32, np.uint64, np.complex64, np.complex128, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz, ml_dtypes.uint4, ml_dtypes.int4,
        ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.uint2, ml_dtypes.int2)
]
NUMBER_OF = {dtype: number for number, dtype in enumerate(BY_NUMBER) if dtype is not None}
