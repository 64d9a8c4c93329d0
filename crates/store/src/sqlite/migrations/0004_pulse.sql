-- Grows whenever limits of pools or targets are written, so that a node sees at a glance whether it knows them.
INSERT INTO counters (name, value) VALUES ('limits', 0);
