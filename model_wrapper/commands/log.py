"""``python -m model_wrapper log``."""

import json
import logging
from typing import Annotated, Any, Literal

import typer
from rich.filesize import decimal

from model_wrapper.commands.terminal import console, fail, print_json, use_tracking

Engine = Literal["cpu", "cu124", "cu130"]
Route = Literal["pyfunc", "entrypoint"]
Interface = Literal["chat-agent", "responses-agent", "chat-model"]

REGISTER_WITH_ENVIRONMENT = """\
on Databricks, in the serverless GPU notebook that logged it (MLflow 3.12 or newer):
            mlflow.register_model("{uri}", "catalog.schema.name",
                                  env_pack="databricks_model_serving")
            https://docs.databricks.com/aws/en/machine-learning/model-serving/serve-custom-llms"""


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("log")(log)


def log(
    model: Annotated[
        str | None,
        typer.Option(
            help="Folder with weights, which is copied, or a hub id, which is only named. Without "
            "it the built-in small model is logged."
        ),
    ] = None,
    by_reference: Annotated[
        bool,
        typer.Option(
            "--by-reference",
            help="Name the folder of --model and don't copy it: a Volume, a shared disk. The "
            "machine that loads the model must see it under the same path.",
        ),
    ] = False,
    engine: Annotated[
        Engine | None,
        typer.Option(
            help="Pins for the machine that will serve: CUDA 12.4, CUDA 13 or CPU. Default: cpu "
            "for the built-in model, else cu124."
        ),
    ] = None,
    route: Annotated[
        Route,
        typer.Option(
            help="How it is served. pyfunc: MLflow calls the model. entrypoint: Databricks' custom "
            "LLM serving starts this server on port 8080, where /invocations speaks OpenAI's chat "
            "(MLflow 3.12 or newer; log and register it in a notebook on serverless GPU, with "
            "env_pack); it loads by pyfunc as well."
        ),
    ] = "pyfunc",
    interface: Annotated[
        Interface | None,
        typer.Option(
            help="MLflow interface of the model. Default: chat-agent; by --route entrypoint "
            "always chat-model."
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="Task in the model's metadata; by default the interface's own (agent/v2/chat). "
            "llm/v1/chat is the way out where a Databricks workspace refuses the endpoint of an "
            "agent with 'Missing feedback served model'."
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the logged model.")] = "chat",
    config: Annotated[
        list[str] | None,
        typer.Option(
            help="Setting of the server as key=value, or several as a JSON object. Repeatable."
        ),
    ] = None,
    tracking_uri: Annotated[
        str | None,
        typer.Option(
            help="MLflow's tracking server. Default: MLFLOW_TRACKING_URI, else sqlite:///mlflow.db."
        ),
    ] = None,
    registry_uri: Annotated[
        str | None, typer.Option(help="MLflow's registry, if it is not the tracking server's own.")
    ] = None,
    register_as: Annotated[
        str | None,
        typer.Option("--register", help="Register under this name, such as catalog.schema.name."),
    ] = None,
    alias: Annotated[
        str | None, typer.Option(help="Alias for the registered version, such as champion.")
    ] = None,
    await_registration_for: Annotated[
        int, typer.Option(help="Seconds to wait until the registry has the files.")
    ] = 3600,
    resources: Annotated[
        str | None,
        typer.Option(help="YAML file with the Databricks resources that the model may use."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON on standard output.")
    ] = False,
) -> None:
    """Log the server and a model to MLflow. No engine is started."""
    if alias and not register_as:
        fail("--alias needs --register: an alias belongs to a registered model")
    interface = choose_interface(route, interface, task)
    screen = console(as_json)
    settings = read_config(config or [])
    # MLflow takes seconds to import: --help and mistakes above answer at once.
    import mlflow
    from mlflow.exceptions import MlflowException

    from app.errors import InvalidRequest
    from app.models.notices import ModelUnavailable
    from model_wrapper.packaging.interfaces import INTERFACES
    from model_wrapper.packaging.log import Order, model_config
    from model_wrapper.packaging.log import log as log_model
    from model_wrapper.packaging.progress import copying
    from model_wrapper.packaging.weights import find_weights

    mlflow_class = INTERFACES[interface].mlflow_class
    if not hasattr(mlflow.pyfunc, mlflow_class):
        fail(f"MLflow {mlflow.__version__} has no {mlflow_class}; take another --interface")
    try:
        weights = find_weights(model, by_reference)
        order = Order(
            weights,
            engine=engine or ("cu124" if model else "cpu"),
            route=route,
            interface=interface,
            task=task,
            name=name,
            config=settings,
            register=register_as,
            await_registration=await_registration_for,
            alias=alias,
            resources=resources,
        )
        model_config(order)
    except (InvalidRequest, ModelUnavailable) as error:
        fail(str(error))
    # It explains what an untrained eye takes for faults: no git, no type hints.
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    address = use_tracking(tracking_uri, registry_uri)
    if route == "entrypoint" and register_as and mlflow.get_registry_uri().startswith("databricks"):
        fail(
            "--register registers without the model's environment, which Databricks needs for "
            f"--route entrypoint. Leave it out; then, {REGISTER_WITH_ENVIRONMENT.format(uri='URI')}"
        )
    try:
        with copying(screen, weights.size):
            logged = log_model(order)
    except MlflowException as error:
        fail(f"MLflow at {address}: {error.message}", status=1)
    uri = f"models:/{register_as}/{logged.version}" if logged.version else logged.model_uri
    where = f" --tracking-uri {tracking_uri}" if tracking_uri else ""
    following = f"python -m model_wrapper validate {uri}{where}"
    screen.print(f"[bold green]logged[/] {logged.model_uri}")
    screen.print(f"run id      {logged.run_id}")
    if logged.version:
        as_alias = f", alias {alias}" if alias else ""
        screen.print(f"registered  {register_as} version {logged.version}{as_alias}")
    screen.print(f"size        {decimal(logged.size)}")
    screen.print(f"engine      {order.engine}, weights {weights.folder or weights.reference}")
    screen.print(f"next        {following}")
    if route == "entrypoint":
        screen.print(f"then        {REGISTER_WITH_ENVIRONMENT.format(uri=logged.model_uri)}")
    if as_json:
        print_json(
            run_id=logged.run_id,
            model_uri=logged.model_uri,
            size=logged.size,
            registered_model=register_as,
            version=logged.version,
            tracking_uri=address,
            next=following,
        )


def choose_interface(route: Route, interface: Interface | None, task: str | None) -> Interface:
    """The interface to log; ends the program if the route does not go with what was asked for."""
    if route == "pyfunc":
        return interface or "chat-agent"
    if interface not in (None, "chat-model"):
        fail(f"--route entrypoint needs --interface chat-model (OpenAI's chat), not {interface}")
    if task not in (None, "llm/v1/chat"):
        fail(f"--route entrypoint needs --task llm/v1/chat, not {task}: Databricks takes no other")
    return "chat-model"


def read_config(entries: list[str]) -> dict[str, Any]:
    """The settings in ``--config`` options; ends the program on a mistake."""
    config: dict[str, Any] = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not entry.lstrip().startswith("{"):
            if not equals or not key.strip():
                fail(f"--config {entry}: write key=value or a JSON object")
            config[key.strip()] = value
            continue
        try:
            found = json.loads(entry)
        except ValueError as error:
            fail(f"--config is not a JSON object: {error}")
        config |= found
    return config
