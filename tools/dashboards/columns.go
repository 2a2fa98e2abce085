package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// The links in the cells of tables keep the data source, the cluster and the time range.
const (
	kept       = "?${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"
	toIncident = "/d/" + uidIncident + kept
	toNode     = toIncident + "&var-node=${__value.text}"
	toGPU      = toIncident + "&var-UUID=${__value.text}"
	toLife     = "/d/" + uidLife + kept + "&var-serial=${__value.text}"
	toChassis  = "/d/" + uidChassis + kept + "&var-chassis_serial=${__value.text}&var-machine=${__data.fields.node}"
	toPod      = toIncident + "&var-namespace=${__data.fields.namespace}&var-pod=${__value.text}"
	toEnergy   = "/d/" + uidEnergy + kept + "&var-namespace=${__value.text}"
)

// presence maps the values of [states] to texts and colours.
var presence = []dashboard.ValueMapping{
	state("1", "present", "green"),
	state("0", "LOST", "red"),
	state("-1", "not scraped", "orange"),
	state("-2", "removed", "orange"),
}

// xids contains the XIDs for which a node is drained or a board is returned.
var xids = []dashboard.ValueMapping{
	state("31", "31: memory page fault of an application", "orange"),
	state("46", "46: stopped processing", "red"),
	state("48", "48: double-bit memory error", "red"),
	state("62", "62: micro-controller halted", "red"),
	state("63", "63: memory row is to be remapped", "orange"),
	state("64", "64: memory row could not be remapped", "red"),
	state("74", "74: NVLink error", "red"),
	state("79", "79: fell off the bus", "red"),
	state("94", "94: memory error, contained", "orange"),
	state("95", "95: memory error, not contained", "red"),
	state("119", "119: GSP does not answer", "red"),
	state("120", "120: GSP error", "red"),
	state("140", "140: memory error, not recovered", "red"),
	state("143", "143: not initialised", "red"),
	state("144", "144: NVLink error (SAW)", "red"),
	state("145", "145: NVLink error (RLW)", "red"),
	state("146", "146: NVLink error (TLW)", "red"),
	state("147", "147: NVLink error (TREX)", "red"),
	state("148", "148: NVLink error (NVLPW)", "red"),
	state("149", "149: NVLink error (NETIR)", "red"),
	state("150", "150: NVLink error (MSE)", "red"),
	state("154", "154: needs a reset or reboot", "red"),
	state("158", "158: fatal timeout", "red"),
}

func place() []column {
	return []column{
		{field: "Value", title: "State", states: presence, width: 85},
		{field: "node", title: "Node", link: toNode, width: 110},
		{field: "serial", title: "Serial number", link: toLife, width: 130},
		{field: "holder", title: "Holder"},
		{field: "chassis_serial", title: "Chassis", link: toChassis, width: 130},
		{field: "tray_index", title: "Tray", width: 60},
		{field: "module_id", title: "Module", width: 70},
		{field: "pci_bus_id", title: "PCI address", width: 145},
		{field: "model", title: "Model", width: 200},
		{field: "UUID", title: "UUID", link: toGPU, width: 350},
	}
}

// placed contains the columns for a place (node and slot) of a board, with the first and the last time in it.
var placed = []column{
	{field: "Value #A", title: "From", unit: "dateTimeAsIso", width: 170},
	{field: "Value #B", title: "Until", unit: "dateTimeAsIso", width: 170},
	{field: "node", title: "Node", link: toNode},
	{field: "serial", title: "Serial number", link: toLife, width: 140},
	{field: "chassis_serial", title: "Chassis", link: toChassis},
	{field: "chassis_slot", title: "Slot", width: 70},
	{field: "tray_index", title: "Tray", width: 70},
	{field: "pci_bus_id", title: "PCI address"},
	{field: "UUID", title: "UUID", link: toGPU, width: 350},
}
