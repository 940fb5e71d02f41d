\set name random(1, 1000000000)
INSERT INTO bench_rows (name, body) VALUES (:name, :body);
