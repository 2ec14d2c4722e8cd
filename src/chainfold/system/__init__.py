"""The operating system: files, temporary storage, threads, signals. It knows nothing of chains.

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

Only `errors` and `escape` are imported here. Begin reading with `files`.
"""
