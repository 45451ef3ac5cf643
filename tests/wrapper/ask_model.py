"""Loads a logged model in a process of its own and answers questions about it, a JSON line each.

Run by path from a folder outside the repository, with whatever MLflow the interpreter has.
"""

import itertools
import json
import sys
import time
import traceback

import mlflow


def main():
    started = time.monotonic()
    model = mlflow.pyfunc.load_model(sys.argv[1])
    import app

    say(loaded=time.monotonic() - started, code=app.__file__, mlflow=mlflow.__version__)
    for line in sys.stdin:
        question = json.loads(line)
        started = time.monotonic()
        try:
            answer = ANSWERS[question["method"]](model, question)
        except mlflow.MlflowException as error:
            status = error.get_http_status_code()
            answer = {"error": error.error_code, "message": error.message, "status": status}
        except Exception:
            answer = {"error": "not an MlflowException", "message": traceback.format_exc()}
        say(seconds=time.monotonic() - started, **answer)


def predict(model, question):
    return {"answer": plain(model.predict(question["input"]))}


def stream(model, question):
    return {"chunks": [plain(chunk) for chunk in model.predict_stream(question["input"])]}


def close(model, question):
    """Read a few chunks and close the generator."""
    chunks = model.predict_stream(question["input"])
    read = [plain(chunk) for chunk in itertools.islice(chunks, question["after"])]
    chunks.close()
    return {"chunks": read}


def overload(model, question):
    """Ask again while a stream is open, and read that to its end."""
    chunks = model.predict_stream(question["input"])
    first = next(chunks)
    try:
        model.predict(question["input"])
        refused = None
    except mlflow.MlflowException as error:
        refused = {"error": error.error_code, "message": error.message}
    return {"refused": refused, "chunks": [plain(chunk) for chunk in (first, *chunks)]}


def plain(value):
    return value if isinstance(value, dict) else value.to_dict()


def say(**facts):
    print(json.dumps(facts), flush=True)


ANSWERS = {"predict": predict, "stream": stream, "close": close, "overload": overload}

if __name__ == "__main__":
    main()
