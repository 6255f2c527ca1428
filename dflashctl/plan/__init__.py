"""Pure decisions: (desired, observed) -> Plan. Nothing here can reach a machine."""
