"""Models of other programs: reading and writing the files of CRFsuite, Wapiti and CRF++.

    any_model          open_any_model, export_model: the format by its first bytes, or by name
    crfsuite_binary    CRFsuite's binary models
    cqdb               the tables of names inside them
    wapiti_text        Wapiti's text models
    crfpp              CRF++: text models (crf_learn -t), and what both kinds mean
    crfpp_binary       CRF++: binary models with a double-array trie
    patterns           templates as lines of Wapiti and CRF++, and back
    foreign            what all formats share: names, weights, limits, errors

Everything in a file is checked before memory is allocated for it: a damaged file gives one sentence.
"""
