"""Python's http.client against the showcase. Usage: clients.py PORT; prints "ok" or failures."""
import http.client
import sys
import threading


def ask(connection, method, path, want, body=None, chunked=False):
    connection.request(method, path, body, encode_chunked=chunked,
                       headers={"Transfer-Encoding": "chunked"} if chunked else {})
    answer = connection.getresponse()
    got = answer.read()
    if answer.status != 200 or got != want:
        raise RuntimeError(f"{method} {path}: {answer.status}, {len(got)} of {len(want)} bytes")


def session(port, number):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.connect()
    used = connection.sock
    for size in (0, 1, 100, 8000, 8192, 16384, 40000, 65536):
        body = bytes((number + i) % 251 for i in range(size))
        for _ in range(3):
            ask(connection, "POST", "/echo", body, body)
            ask(connection, "POST", "/echo", body, iter([body[:99], body[99:]]), chunked=True)
            ask(connection, "GET", "/hello", b"Hello, World!")
            ask(connection, "GET", "/hello", b"Hello, World!")
    if connection.sock is not used:
        raise RuntimeError("the connection was not kept")
    connection.close()


failures = []


def guarded(number):
    try:
        session(int(sys.argv[1]), number)
    except Exception as error:  # every kind is a failed request
        failures.append(f"{type(error).__name__}: {error}")


threads = [threading.Thread(target=guarded, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("\n".join(failures) or "ok")
sys.exit(bool(failures))
