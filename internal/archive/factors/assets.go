// Package factors reads the data that are joined with the books when an answer is printed, and never
// stored: prices, the carbon intensity and efficiency of sites, lists of assets and of returned boards.
package factors

// Assets are the boards in a list of assets. The zero value has none.
type Assets struct {
	bySerial, byTag map[string]*Asset
	all             []*Asset
}

// Asset is a board in a list of assets.
type Asset struct{ Serial, Tag, Warranty, Order, Site string }

// SerialOf returns the serial number of an asset tag, empty if it is unknown.
func (a *Assets) SerialOf(tag string) string {
	if found := a.byTag[tag]; found != nil {
		return found.Serial
	}
	return ""
}

// TagOf returns the asset tag of a serial number, empty if it is unknown.
func (a *Assets) TagOf(serial string) string {
	if found := a.bySerial[serial]; found != nil {
		return found.Tag
	}
	return ""
}

// Of returns the asset with a serial number, nil if it is unknown.
func (a *Assets) Of(serial string) *Asset { return a.bySerial[serial] }
