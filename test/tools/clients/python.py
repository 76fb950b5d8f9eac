"""psycopg2, psycopg 3, pandas and SQLAlchemy, as Debian has them."""

import io
import os
import threading

import pandas
import psycopg
import psycopg2
import psycopg2.extras
import sqlalchemy

WRITER, READER = os.environ["CDP_WRITER"], os.environ["CDP_READER"]

ASLEEP = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def cancel_asleep(connection):
    """Cancels what the connection does once it sleeps."""
    with psycopg.connect(WRITER, autocommit=True) as other:
        while other.execute(ASLEEP).fetchone() is None:
            pass
    connection.cancel()


# psycopg2: parameters, COPY, a named cursor, LISTEN, cancel from another thread.
old = psycopg2.connect(WRITER)
with old, old.cursor() as cursor:
    cursor.execute("CREATE TABLE people (id serial PRIMARY KEY, name text UNIQUE, age int, extra jsonb)")
    rows = [(f"p{n}", n % 90, psycopg2.extras.Json({"n": n})) for n in range(1000)]
    psycopg2.extras.execute_values(cursor, "INSERT INTO people (name, age, extra) VALUES %s", rows)
    cursor.copy_expert("COPY people (name, age) FROM STDIN WITH (FORMAT csv)", io.StringIO("x,1\ny,2\n"))
with old, old.cursor("named") as cursor:
    cursor.itersize = 100
    cursor.execute("SELECT id FROM people ORDER BY id")
    assert sum(1 for _ in cursor) == 1002
try:
    with old, old.cursor() as cursor:
        cursor.execute("INSERT INTO people (name) VALUES ('x')")
    raise SystemExit("a duplicate was stored")
except psycopg2.errors.UniqueViolation as error:
    assert error.diag.constraint_name == "people_name_key"
with old, old.cursor() as cursor:
    cursor.execute("LISTEN news; NOTIFY news, 'hello'")
old.poll()
assert [notify.payload for notify in old.notifies] == ["hello"]
threading.Thread(target=cancel_asleep, args=[old]).start()
try:
    with old, old.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(60)")
    raise SystemExit("nothing was canceled")
except psycopg2.errors.QueryCanceled:
    pass
old.close()

# psycopg 3: prepared statements, binary results, COPY, a server-side cursor, nested transactions.
with psycopg.connect(WRITER) as new:
    for n in range(10):
        assert new.execute("SELECT %s::int + 1", [n]).fetchone() == (n + 1,)
    with new.cursor(binary=True) as cursor:
        found = cursor.execute("SELECT 1.5::numeric, ARRAY[1, 2], '2026-01-31'::date, '\\x00ff'::bytea").fetchone()
        assert (str(found[0]), found[1], found[2].isoformat(), bytes(found[3])) == ("1.5", [1, 2], "2026-01-31", b"\0\xff")
    with new.cursor() as cursor:
        with cursor.copy("COPY people (name, age) FROM STDIN") as copy:
            for n in range(1000):
                copy.write_row((f"c{n}", n))
        with cursor.copy("COPY (SELECT name FROM people) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text"])
            assert sum(1 for _ in copy.rows()) == 2002
    with new.transaction():
        try:
            with new.transaction():
                new.execute("DELETE FROM people")
                raise psycopg.Rollback()
        finally:
            pass
    with new.cursor("server_side") as cursor:
        cursor.execute("SELECT id FROM people")
        assert len(cursor.fetchmany(50)) == 50

# pandas and SQLAlchemy: a frame in and out, reflection.
engine = sqlalchemy.create_engine(WRITER.replace("postgres://", "postgresql+psycopg2://"))
frame = pandas.DataFrame({"name": ["a", "b"], "score": [0.5, None], "at": pandas.to_datetime(["2026-01-31"] * 2, utc=True)})
frame.to_sql("scores", engine, index=False)
frame.to_sql("scores", engine, index=False, if_exists="append", method="multi")
reader = sqlalchemy.create_engine(READER.replace("postgres://", "postgresql+psycopg2://"))
back = pandas.read_sql("SELECT * FROM scores ORDER BY name", reader)
assert list(back["name"]) == ["a", "a", "b", "b"] and str(back["at"].dtype).startswith("datetime64[ns")
assert len(list(pandas.read_sql("SELECT * FROM people", reader, chunksize=500))) == 5
metadata = sqlalchemy.MetaData()
metadata.reflect(reader)
assert metadata.tables["people"].primary_key.columns.keys() == ["id"]
inspector = sqlalchemy.inspect(engine)
assert inspector.get_unique_constraints("people")[0]["column_names"] == ["name"]
assert "data" in inspector.get_schema_names() and inspector.default_schema_name == "data"
try:
    frame.to_sql("forbidden", reader, index=False)
    raise SystemExit("the reader wrote")
except sqlalchemy.exc.DBAPIError:
    pass
engine.dispose()
reader.dispose()
