"""`stream-occ doctor`: listens to a broker, and says what devices send and which configuration would read it."""

from stream_occ.doctor.advice import diagnose
from stream_occ.doctor.findings import Diagnosis, Finding, Question
from stream_occ.doctor.heard import Heard, Topic, listen
from stream_occ.doctor.telling import configuration, report

__all__ = ["Diagnosis", "Finding", "Heard", "Question", "Topic", "configuration", "diagnose", "listen", "report"]
