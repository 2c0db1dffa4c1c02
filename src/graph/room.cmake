# The table of operator schemas is made from the pinned onnx package while building.
set(_ft_venv_python ${CMAKE_SOURCE_DIR}/build/venv/bin/python)
if(SKBUILD)
  set(_ft_default_python ${Python_EXECUTABLE})  # pip install: the build environment has the package
elseif(EXISTS ${_ft_venv_python})
  set(_ft_default_python ${_ft_venv_python})
else()
  set(_ft_default_python python3)
endif()
set(FORETHOUGHT_PYTHON_EXECUTABLE ${_ft_default_python} CACHE STRING "Python with the pinned onnx package, for the schema table")

set(_ft_schema_table ${CMAKE_BINARY_DIR}/generated/graph/schema/table.cc)
set(_ft_schema_script ${CMAKE_CURRENT_SOURCE_DIR}/graph/schema/generate.py)
add_custom_command(
  OUTPUT ${_ft_schema_table}
  COMMAND ${FORETHOUGHT_PYTHON_EXECUTABLE} ${_ft_schema_script} ${_ft_schema_table}
  DEPENDS ${_ft_schema_script}
  COMMENT "Writing the ONNX operator schemas"
  VERBATIM)
target_sources(ft_graph PRIVATE ${_ft_schema_table})
