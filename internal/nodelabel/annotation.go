package nodelabel

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

const (
	// maxAnnotation is the maximum size of the annotation. It is less than 4 kB, because every
	// program that watches Nodes holds the annotation of every Node in memory.
	maxAnnotation = 4000
	// maxRaw limits one string of the driver; NVML's longest serial number has 30 bytes, its
	// longest UUID 96.
	maxRaw = 96
)

// record is the content of the annotation: the values from which the labels are made, as the driver
// and the firmware spell them. It contains nothing that changes while the GPUs stay the same.
type record struct {
	Version int           `json:"v"`
	Chassis string        `json:"chassis,omitempty"`
	Slot    *int          `json:"slot,omitempty"`
	Tray    *int          `json:"tray,omitempty"`
	DMI     string        `json:"dmi_chassis,omitempty"`
	GPUs    []recordedGPU `json:"gpus"`
	// More counts the GPUs that did not fit.
	More int `json:"more,omitempty"`
}

type recordedGPU struct {
	UUID   string `json:"uuid"`
	Serial string `json:"serial,omitempty"`
	PCI    string `json:"pci"`
	Module *int   `json:"module,omitempty"`
	// Chassis, Slot and Tray are set only where the GPUs of the Node differ.
	Chassis string `json:"chassis,omitempty"`
	Slot    *int   `json:"slot,omitempty"`
	Tray    *int   `json:"tray,omitempty"`
	Lost    bool   `json:"lost,omitempty"`
}

// annotation returns the record as compact JSON.
func annotation(p inventory.Page, gpus []inventory.GPU) string {
	r := record{Version: 1, DMI: raw(gpu.Identity(p.Node.ChassisSerial)), GPUs: make([]recordedGPU, 0, len(gpus))}
	shared := same(gpus)
	if shared {
		at := gpus[0].Platform
		r.Chassis, r.Slot, r.Tray = raw(at.ChassisSerial), at.Slot, at.Tray
	}
	for _, g := range gpus {
		rg := recordedGPU{UUID: raw(g.UUID), Serial: raw(g.Serial), PCI: raw(g.PCIBusID), Module: g.Platform.ModuleID, Lost: !g.Present}
		if !shared {
			rg.Chassis, rg.Slot, rg.Tray = raw(g.Platform.ChassisSerial), g.Platform.Slot, g.Platform.Tray
		}
		r.GPUs = append(r.GPUs, rg)
	}
	for {
		text := compact(r)
		if len(text) <= maxAnnotation {
			return text
		}
		r.GPUs = r.GPUs[:len(r.GPUs)-1]
		r.More++
	}
}

// same reports whether all GPUs are in the same place.
func same(gpus []inventory.GPU) bool {
	first := gpus[0]
	for _, g := range gpus {
		if g.Platform.ChassisSerial != first.Platform.ChassisSerial || slot(g) != slot(first) || tray(g) != tray(first) {
			return false
		}
	}
	return true
}

// raw cuts a string that is longer than any valid string of the driver.
func raw(s string) string {
	if len(s) > maxRaw {
		s = s[:maxRaw]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

func compact(r record) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(r) // a struct of strings and numbers always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
