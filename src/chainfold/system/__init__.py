"""The operating system: files, temporary storage, threads, signals, compiled code. It knows nothing of chains.

    files           atomic writes, locks, temporary folders
    storage         folders of files, here or behind a URI
    sources         what inputs are read from: files, pipes, open files, objects behind URIs
    spill           arrays in unnamed temporary files
    outputs         checks outputs against inputs and locks them
    archive         files of named arrays and JSON with a checksum: models, runs, states
    validate        checks of arrays and JSON read from files
    prefetch        read ahead in another thread
    signals         stop on SIGINT, SIGTERM and SIGHUP
    machine         what differs between operating systems: locks, reads at a place, cores, memory
    jit             `kernel`: numba's njit with explicit arithmetic
    intrinsics      words and prefetch instructions for kernels
    objects         Python's own objects for kernels that hold the interpreter lock
    kernel_cache    compiled kernels on disk

Only `errors` and `escape` are imported here. Begin reading with `files`.
"""
