-- caller: reconcile
-- guard: none: reads
-- index: none: a row per group is scanned
SELECT tenant, fingerprint, n FROM dead_groups
