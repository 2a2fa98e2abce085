package table

// Moves declares the columns of board events that are sent to other systems. Sinks do not store this table.
var Moves = Table{
	Name: "moves",
	Help: "an event of a board",
	Columns: []Column{
		{Name: "id", Type: Text, Help: "identifies the event, which may be sent again with the same id"},
		{Name: "time", Type: Time, Help: "time of the first scrape after the event; if a board was lost, silent or replaced, time of the last scrape before the event"},
		{Name: "event", Type: Text, Help: "arrived, moved, returned, lost, silent or replaced"},
		{Name: "serial", Type: Text, Help: "serial number of the board, empty if unknown"},
		{Name: "uuid", Type: Text, Help: "UUID of the GPU"},
		{Name: "cluster", Type: Text, Help: "cluster"},
		{Name: "node", Type: Text, Help: "node"},
		{Name: "chassis_serial", Type: Text, Help: "serial number of the chassis"},
		{Name: "chassis_slot", Type: Text, Help: "slot in the chassis"},
		{Name: "pci_bus_id", Type: Text, Help: "PCI address"},
		{Name: "previous_cluster", Type: Text, Help: "cluster before a move"},
		{Name: "previous_node", Type: Text, Help: "node before a move"},
		{Name: "previous_serial", Type: Text, Help: "serial number or UUID of the board that was in this place before"},
	},
}
