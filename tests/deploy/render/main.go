// Command render prints the manifests of a Helm chart. It has the parts of Helm's template engine that our chart uses, on
// the same libraries (text/template, sprig, sigs.k8s.io/yaml), for machines to which no helm package comes.
//
//	render CHART RELEASE NAMESPACE [VALUES.yaml …]
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type values = map[string]interface{}

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: render CHART RELEASE NAMESPACE [VALUES.yaml …]"))
	}
	chart := os.Args[1]
	context := values{
		"Values":   merged(append([]string{filepath.Join(chart, "values.yaml")}, os.Args[4:]...)),
		"Chart":    capitalized(read(filepath.Join(chart, "Chart.yaml"))),
		"Release":  values{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm", "IsInstall": true, "Revision": 1},
		"Files":    files{chart},
		"Template": values{},
	}
	templates, names := parsed(chart)
	for _, name := range names {
		text := strings.TrimSpace(rendered(templates, name, context))
		if filepath.Ext(name) == ".txt" { // the notes are for people: as comments
			text = "# " + strings.ReplaceAll(text, "\n", "\n# ")
		}
		if text != "" {
			fmt.Printf("---\n# Source: %s\n%s\n", name, text)
		}
	}
}

// files is .Files of a template.
type files struct{ chart string }

func (f files) Get(name string) string {
	content, err := os.ReadFile(filepath.Join(f.chart, name))
	if err != nil {
		return "" // as Helm does
	}
	return string(content)
}

// parsed returns all templates, and the names of those that make manifests or notes.
func parsed(chart string) (*template.Template, []string) {
	all := template.New("chart").Option("missingkey=zero")
	all.Funcs(functions(all))
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	fail(err)
	sort.Strings(paths)
	var names []string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		fail(err)
		name := filepath.Join(filepath.Base(chart), "templates", filepath.Base(path))
		_, err = all.New(name).Parse(string(content))
		fail(err)
		if !strings.HasPrefix(filepath.Base(path), "_") {
			names = append(names, name)
		}
	}
	return all, names
}

// functions are sprig's without access to the environment, and those that Helm adds.
func functions(all *template.Template) template.FuncMap {
	found := sprig.TxtFuncMap()
	delete(found, "env")
	delete(found, "expandenv")
	found["randAlphaNum"] = func(size int) string { return strings.Repeat("r", size) } // the same output in each run
	found["lookup"] = func(string, string, string, string) values { return values{} }  // no cluster
	found["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	found["fromYaml"] = func(text string) (values, error) {
		var value values
		err := yaml.Unmarshal([]byte(text), &value)
		return value, err
	}
	found["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	found["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	return found
}

func rendered(templates *template.Template, name string, context values) string {
	var out bytes.Buffer
	context["Template"] = values{"Name": name}
	fail(templates.ExecuteTemplate(&out, name, context))
	return strings.ReplaceAll(out.String(), "<no value>", "") // as Helm does
}

// merged returns the values of several files. Later files win, and null removes a value.
func merged(paths []string) values {
	result := values{}
	for _, path := range paths {
		merge(result, read(path))
	}
	return result
}

func merge(into, from values) {
	for key, value := range from {
		inner, isMap := value.(values)
		outer, wasMap := into[key].(values)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(outer, inner)
		default:
			into[key] = value
		}
	}
}

// read returns a YAML file as Helm sees it: by way of JSON, so that all numbers are floats.
func read(path string) values {
	content, err := os.ReadFile(path)
	fail(err)
	text, err := yaml.YAMLToJSONStrict(content)
	fail(err)
	var result values
	fail(json.Unmarshal(text, &result))
	return result
}

// capitalized renames the fields of Chart.yaml to those of Helm's structure: appVersion is .Chart.AppVersion.
func capitalized(fields values) values {
	result := values{}
	for name, value := range fields {
		result[strings.ToUpper(name[:1])+name[1:]] = value
	}
	return result
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}
