"""What is said at the end."""

from dflashctl.view.outcome import Again


def test_a_further_command_keeps_the_options_that_were_given() -> None:
    assert Again(target="kpro6/dflash").typed("status") == "dflashctl status -t kpro6/dflash"
    asked = Again(target="here", inventory="a b.yml", playbook="eval.yml")
    assert asked.typed("logs", "-f") == "dflashctl -i 'a b.yml' logs -f -t here -p eval.yml"
