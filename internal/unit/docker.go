package unit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// maxContainerFile limits the size of an engine's file in bytes.
const maxContainerFile = 8 << 20

// container has the used data of an engine's files about a container.
type container struct {
	name, image, project string
	devices              []gpu.DeviceName
}

// dockerConfig has the used fields of <data root>/containers/<id>/config.v2.json. The file contains
// the container's environment, and with it secrets, so nothing else is decoded.
type dockerConfig struct {
	Name   string
	Config struct {
		Image  string
		Labels struct {
			Project string `json:"com.docker.compose.project"`
		}
	}
}

// dockerHostConfig has the used fields of hostconfig.json.
type dockerHostConfig struct {
	DeviceRequests []deviceRequest
}

// deviceRequest is a request for devices, such as --gpus.
type deviceRequest struct {
	Driver       string
	Count        int // -1 for all
	DeviceIDs    []string
	Capabilities [][]string
}

// readDocker reads the files of a container of Docker.
func readDocker(root, id string) (c container, err error) {
	dir := filepath.Join(root, "containers", id)
	var config dockerConfig
	if err := decode(filepath.Join(dir, "config.v2.json"), &config); err != nil {
		return c, err
	}
	c.name = strings.TrimPrefix(config.Name, "/")
	c.image, c.project = config.Config.Image, config.Config.Labels.Project
	var host dockerHostConfig
	if err := decode(filepath.Join(dir, "hostconfig.json"), &host); err != nil {
		return c, err
	}
	for _, r := range host.DeviceRequests {
		c.devices = append(c.devices, r.devices()...)
	}
	return c, nil
}

// decode decodes a file. An error contains no part of the file.
func decode(path string, into any) error {
	data, _, err := readTrusted(path, maxContainerFile)
	if err != nil {
		return err
	}
	if json.Unmarshal(data, into) != nil {
		return fmt.Errorf("%s: invalid JSON or unexpected types", path)
	}
	return nil
}

// devices returns the GPUs of a request. A number of GPUs means the first ones by index.
func (r deviceRequest) devices() (list []gpu.DeviceName) {
	switch {
	case r.Driver == "cdi":
		for _, id := range r.DeviceIDs {
			if name, ok := strings.CutPrefix(id, "nvidia.com/gpu="); ok {
				list = append(list, requested(name)...)
			}
		}
	case r.Driver != "nvidia" && !slices.ContainsFunc(r.Capabilities, func(all []string) bool { return slices.Contains(all, "gpu") }):
	case r.Count < 0:
		list = requested("all")
	case r.Count > 0:
		for i := range min(r.Count, maxHeldLines) {
			list = append(list, gpu.DeviceName{Index: &i})
		}
	default:
		for _, id := range r.DeviceIDs {
			list = append(list, requested(id)...)
		}
	}
	return list
}

// requested returns the GPU of an id: all, a UUID, an index, or <index>:<index of a MIG device>.
func requested(id string) []gpu.DeviceName {
	if id == "all" {
		return []gpu.DeviceName{{All: true}}
	}
	number, part, isPart := strings.Cut(id, ":")
	d, ok := parseDevice(number, Index)
	if !ok || strings.Contains(number, ".") || isPart && !isNumber(part) {
		return nil
	}
	if isPart {
		ordinal, _ := strconv.Atoi(part)
		d.Partition = &gpu.PartitionName{Ordinal: &ordinal}
	}
	return []gpu.DeviceName{d}
}

// podmanContainer has the used fields of a row of containers.json of containers/storage. Metadata is
// itself JSON.
type podmanContainer struct {
	ID       string   `json:"id"`
	Names    []string `json:"names"`
	Metadata string   `json:"metadata"`
}

// readPodman returns Podman's containers by id. The file of containers that are removed when they
// end may be in the run root.
func readPodman(roots []string) (map[string]container, error) {
	all := make(map[string]container)
	var missing, first error
	read := 0
	for _, root := range roots {
		for _, file := range []string{"containers.json", "volatile-containers.json"} {
			var rows []podmanContainer
			switch err := decode(filepath.Join(root, "overlay-containers", file), &rows); {
			case errors.Is(err, fs.ErrNotExist):
				missing = cmp.Or(missing, err)
				continue
			case err != nil:
				first = cmp.Or(first, err)
				continue
			}
			read++
			for _, r := range rows {
				if len(r.Names) > 0 {
					all[r.ID] = container{name: r.Names[0], image: imageOf(r.Metadata)}
				}
			}
		}
	}
	if read == 0 {
		first = cmp.Or(first, missing)
	}
	return all, first
}

// imageOf returns the name of the image in a container's metadata.
func imageOf(metadata string) string {
	var m struct {
		Image string `json:"image-name"`
	}
	_ = json.Unmarshal([]byte(metadata), &m) // without metadata the image is unknown
	return m.Image
}
