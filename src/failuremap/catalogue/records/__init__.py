"""Records: what is published of a case, checked, digested and read back."""

from failuremap.catalogue.records.digest import PUBLISHED_KEY as PUBLISHED_KEY
from failuremap.catalogue.records.digest import WITHHELD as WITHHELD
from failuremap.catalogue.records.digest import canonical as canonical
from failuremap.catalogue.records.digest import open_commitment as open_commitment
from failuremap.catalogue.records.digest import open_form as open_form
from failuremap.catalogue.records.digest import record_digest as record_digest
from failuremap.catalogue.records.digest import salt_of as salt_of
from failuremap.catalogue.records.model import SCHEMA_VERSION as SCHEMA_VERSION
from failuremap.catalogue.records.model import Case as Case
from failuremap.catalogue.records.read import case_from_document as case_from_document
from failuremap.catalogue.records.read import case_from_json as case_from_json
from failuremap.catalogue.records.read import read_json as read_json
