"""Models from a Hugging Face hub, by the hub's own client and in its own cache.

HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE mean what they mean everywhere.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from app.models import folder_check
    from app.models.notices import ModelUnavailable, say
else:
    import folder_check
    from notices import ModelUnavailable, say

# Weights of other frameworks and second copies of the same weights; they can double a download.
UNWANTED = ("*.gguf", "*.h5", "*.msgpack", "*.onnx", "*.ot", "*.pth", "consolidated*", "original/*")
PICKLED = "*.bin"


def download(repository: str) -> Path:
    """Return the local snapshot of `repository`, downloading what the hub's cache lacks.

    Without a network (or with HF_HUB_OFFLINE=1) it is what the cache has.

    Raises:
        ModelUnavailable: not in the cache and not to be downloaded, or incomplete.
    """
    # Slow to import, and not needed for any other kind of MODEL.
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    say(f"{repository} from the hub")
    try:
        folder = Path(snapshot_download(repository, ignore_patterns=[*UNWANTED, PICKLED]))
        if not any(folder.glob("*.safetensors")):
            # An older repository that has pickled weights only.
            folder = Path(snapshot_download(repository, ignore_patterns=list(UNWANTED)))
    except GatedRepoError as error:
        raise ModelUnavailable(
            f"MODEL {repository} is gated: accept its terms on the hub and set HF_TOKEN"
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelUnavailable(
            f"MODEL {repository}: the hub has no such model, or HF_TOKEN may not see it"
        ) from error
    except LocalEntryNotFoundError as error:
        raise ModelUnavailable(
            f"MODEL {repository} is neither a folder here nor in the hub's cache, and the hub "
            f"can't be reached ({error.__cause__ or error})"
        ) from error
    except (OSError, ValueError, httpx.HTTPError) as error:
        # A full disk, a malformed id, a download that broke off.
        raise ModelUnavailable(f"MODEL {repository} could not be downloaded: {error}") from error
    folder_check.require_complete(folder, f"MODEL {repository}, downloaded to {folder},")
    return folder
