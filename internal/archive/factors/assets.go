// Package factors reads data that the archive does not contain: prices, the carbon intensity and efficiency of sites,
// and lists of assets and returned boards. These data are combined with the rows of the archive when an answer is
// printed. The archive never stores them.
package factors

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Assets contains the boards in a list of assets.
type Assets struct {
	bySerial, byTag map[string]Asset
}

// Asset is a board in a list of assets. Unknown fields are empty.
type Asset struct{ Serial, Tag, Warranty, Order, Site, Purchased string }

// Purchase returns the date of the purchase. It returns zero if the date is unknown.
func (a Asset) Purchase() (time.Time, error) { return parseTime(a.Purchased) }

// WarrantyEnd returns the end of the warranty. It returns zero if the end is unknown. The day or month in the list is
// still in warranty.
func (a Asset) WarrantyEnd() (time.Time, error) {
	at, err := parseTime(a.Warranty)
	switch {
	case err != nil || at.IsZero():
		return time.Time{}, err
	case len(a.Warranty) == len(time.DateOnly):
		at = at.AddDate(0, 0, 1)
	case len(a.Warranty) == len("2006-01"):
		at = at.AddDate(0, 1, 0)
	}
	return at, nil
}

// assetColumns contains the names that each column may have. Our own names are first. Names from exports of NetBox and
// ServiceNow follow.
var assetColumns = map[string][]string{
	"serial":   {"serial", "serial_number", "part_serial"},
	"tag":      {"tag", "asset_tag"},
	"warranty": {"warranty", "warranty_expiration", "warranty_until", "cf_warranty_end", "cf_warranty_expiration"},
	"order":    {"order", "order_number", "po_number", "purchase_order", "cf_purchase_order"},
	"site":     {"site", "location"},
	// In NetBox, the date of purchase is a custom field.
	"purchased": {"purchased", "purchase_date", "cf_purchase_date", "cf_purchased", "install_date"},
}

func readAssets(path, columns string) (*Assets, error) {
	a := &Assets{make(map[string]Asset), make(map[string]Asset)}
	if path == "" {
		return a, nil
	}
	err := readList("assets", path, assetColumns, func(l *list) error { return l.rename(columns) }, func(l *list) error {
		asset := Asset{l.value("serial"), l.value("tag"), l.value("warranty"), l.value("order"), l.value("site"), l.value("purchased")}
		if asset.Serial != "" {
			a.bySerial[asset.Serial] = asset
		}
		if asset.Tag != "" {
			a.byTag[asset.Tag] = asset
		}
		return nil
	})
	return a, err
}

// rename replaces the names of columns by the names in --assets.columns.
func (l *list) rename(columns string) error {
	for pair := range strings.SplitSeq(columns, ",") {
		field, header, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if _, known := assetColumns[field]; pair != "" && (!ok || !known) {
			return fmt.Errorf("--assets.columns=%s: must be names such as serial=Serial,tag=Tag,warranty=Ends,order=PO,site=Site,purchased=Bought", columns)
		}
		if ok {
			if l.places[field] = slices.Index(l.header, header); !l.has(field) {
				return fmt.Errorf("--assets.columns: there is no column %q", header)
			}
		}
	}
	if !l.has("serial") {
		return errors.New("there is no column with serial numbers: name it with --assets.columns=serial=HEADER")
	}
	return nil
}

// SerialOf returns the serial number of the asset with a tag. It returns "" if the tag is unknown.
func (a *Assets) SerialOf(tag string) string { return a.byTag[tag].Serial }

// Of returns the asset with the given serial number.
func (a *Assets) Of(serial string) Asset { return a.bySerial[serial] }

// RMA lists returned boards and their replacements.
type RMA struct{ old, new map[string]rmaRow }

type rmaRow struct{ old, new, number string }

func readRMA(path string) (*RMA, error) {
	r := &RMA{make(map[string]rmaRow), make(map[string]rmaRow)}
	if path == "" {
		return r, nil
	}
	columns := map[string][]string{"old": {"old_serial", "old"}, "new": {"new_serial", "new"}, "number": {"rma", "number", "case"}}
	return r, readList("rma", path, columns, func(l *list) error {
		if !l.has("old") || !l.has("new") {
			return errors.New("must have the columns old_serial and new_serial, and may have the column rma")
		}
		return nil
	}, func(l *list) error {
		x := rmaRow{l.value("old"), l.value("new"), l.value("number")}
		r.old[x.old], r.new[x.new] = x, x
		return nil
	})
}

// Note returns the remark about a replaced board or its replacement. It returns "" if the list contains neither.
func (r *RMA) Note(old, replacement string) string {
	x, ok := r.old[old]
	if !ok || old == "" {
		if x, ok = r.new[replacement]; !ok || replacement == "" {
			return ""
		}
	}
	text := x.old + " returned"
	if x.new != "" {
		text = x.old + " returned for " + x.new
	}
	if x.number != "" {
		text = x.number + ": " + text
	}
	return text
}
