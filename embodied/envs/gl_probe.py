"""Stand-alone check that an OpenGL backend can make a context without a display.

`python gl_probe.py egl|osmesa LIBRARY...` exits with 0 if a context was made current and with 1 if
not. It runs as a process of its own because a broken driver may crash instead of reporting an
error, and imports nothing but ctypes so that it takes milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import sys

EGL_PLATFORM_DEVICE = 0x313F
EGL_OPENGL_API = 0x30A2
# Red, green, blue and alpha of 8 bits, 24 bits of depth, 8 of stencil, RGB buffer, pbuffer, desktop
# OpenGL, end of list: the configuration that dm_control asks for.
EGL_ATTRIBUTES = (
    *(0x3024, 8, 0x3023, 8, 0x3022, 8, 0x3021, 8, 0x3025, 24, 0x3026, 8),
    *(0x303F, 0x308E, 0x3033, 1, 0x3040, 8, 0x3038),
)
OSMESA_RGBA = 0x1908
GL_UNSIGNED_BYTE = 0x1401


def load(libraries: list[str]) -> ctypes.CDLL | None:
    """Open the first shared library that is there."""
    for name in libraries:
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    return None


def egl_works(library: ctypes.CDLL) -> bool:
    """Try every EGL device (or the one that MUJOCO_EGL_DEVICE_ID names) until a context works."""
    library.eglGetProcAddress.restype = ctypes.c_void_p
    query = library.eglGetProcAddress(b"eglQueryDevicesEXT")
    platform = library.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    if not query or not platform:
        return False
    devices = (ctypes.c_void_p * 16)()
    count = ctypes.c_int()
    query_devices = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    if not query_devices(query)(len(devices), devices, ctypes.byref(count)):
        return False
    get_display = ctypes.CFUNCTYPE(
        ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p
    )(platform)
    candidates = list(devices[: count.value])
    chosen = os.environ.get("MUJOCO_EGL_DEVICE_ID")
    if chosen is not None:
        candidates = candidates[int(chosen) :][:1]
    return any(
        egl_context_works(library, get_display(EGL_PLATFORM_DEVICE, device, None))
        for device in candidates
    )


def egl_context_works(library: ctypes.CDLL, display: int | None) -> bool:
    """Make a surfaceless context current on a display."""
    if not display:
        return False
    handle = ctypes.c_void_p(display)
    if not library.eglInitialize(handle, None, None):
        return False
    configs = (ctypes.c_void_p * 1)()
    count = ctypes.c_int()
    attributes = (ctypes.c_int * len(EGL_ATTRIBUTES))(*EGL_ATTRIBUTES)
    library.eglChooseConfig(handle, attributes, configs, 1, ctypes.byref(count))
    if count.value < 1 or not library.eglBindAPI(EGL_OPENGL_API):
        return False
    library.eglCreateContext.restype = ctypes.c_void_p
    context = library.eglCreateContext(handle, ctypes.c_void_p(configs[0]), None, None)
    if not context:
        return False
    return bool(library.eglMakeCurrent(handle, None, None, ctypes.c_void_p(context)))


def osmesa_works(library: ctypes.CDLL) -> bool:
    """Make an off-screen software context current on a buffer of 8 x 8 pixels."""
    library.OSMesaCreateContextExt.restype = ctypes.c_void_p
    context = library.OSMesaCreateContextExt(OSMESA_RGBA, 24, 8, 0, None)
    if not context:
        return False
    buffer = (ctypes.c_ubyte * (8 * 8 * 4))()
    handle = ctypes.c_void_p(context)
    return bool(library.OSMesaMakeCurrent(handle, buffer, GL_UNSIGNED_BYTE, 8, 8))


def main(arguments: list[str]) -> int:
    """Run the check named first with the libraries named after it; returns the exit code."""
    backend, libraries = arguments[0], arguments[1:]
    library = load(libraries)
    if library is None:
        return 1
    works = egl_works(library) if backend == "egl" else osmesa_works(library)
    return 0 if works else 1


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    # Drivers keep threads and exit handlers that may hang or crash after a successful check.
    os._exit(code)
