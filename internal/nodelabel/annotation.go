package nodelabel

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

const (
	// maxAnnotation is the maximum size of the annotation, in bytes. It is small, because every program that watches
	// Nodes holds all annotations in memory.
	maxAnnotation = 4000
	// maxRaw is the maximum length of a string from the driver. NVML's longest serial number has 30 bytes. NVML's
	// longest UUID has 96 bytes.
	maxRaw = 96
)

// record is the content of the annotation. It contains the unchanged values of the driver and the firmware from which
// the labels are computed. The record does not change while the GPUs stay the same.
type record struct {
	Version int           `json:"v"`
	Chassis string        `json:"chassis,omitempty"`
	Slot    *int          `json:"slot,omitempty"`
	Tray    *int          `json:"tray,omitempty"`
	DMI     string        `json:"dmi_chassis,omitempty"`
	GPUs    []recordedGPU `json:"gpus"`
	// More is the number of GPUs that were omitted to limit the size of the annotation.
	More int `json:"more,omitempty"`
}

type recordedGPU struct {
	UUID   string `json:"uuid"`
	Serial string `json:"serial,omitempty"`
	PCI    string `json:"pci"`
	Module *int   `json:"module,omitempty"`
	// Chassis, Slot and Tray are set only if they differ among the GPUs of the Node.
	Chassis string `json:"chassis,omitempty"`
	Slot    *int   `json:"slot,omitempty"`
	Tray    *int   `json:"tray,omitempty"`
	Lost    bool   `json:"lost,omitempty"`
}

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

func same(gpus []inventory.GPU) bool {
	first := gpus[0]
	for _, g := range gpus {
		if g.Platform.ChassisSerial != first.Platform.ChassisSerial || slot(g) != slot(first) || tray(g) != tray(first) {
			return false
		}
	}
	return true
}

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
	_ = e.Encode(r) // encoding a struct of strings and numbers cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}
