"""The catalogue: mechanisms as data and code together, and the evidence by which they are recognised."""

from failuremap.catalogue.mechanism import STAGES as STAGES
from failuremap.catalogue.mechanism import VARIANTS as VARIANTS
from failuremap.catalogue.mechanism import Mechanism as Mechanism
from failuremap.catalogue.mechanism import Stage as Stage
from failuremap.catalogue.recognise import recognise as recognise
from failuremap.catalogue.render import render as render
from failuremap.catalogue.run import Run as Run
from failuremap.catalogue.shelf import case_id as case_id
from failuremap.catalogue.shelf import case_of as case_of
from failuremap.catalogue.shelf import mechanism as mechanism
from failuremap.catalogue.shelf import mechanisms as mechanisms
from failuremap.catalogue.signs import Sign as Sign
from failuremap.catalogue.verify import StageResult as StageResult
from failuremap.catalogue.verify import verify as verify
