# The page that shows a plan, kept as a file of its own, becomes a constant of the library.
set(_ft_page ${CMAKE_CURRENT_SOURCE_DIR}/session/plan_page.html)
set(_ft_page_header ${CMAKE_BINARY_DIR}/generated/session/plan_page_template.h)
set(_ft_page_script ${CMAKE_SOURCE_DIR}/cmake/embed_page.cmake)
add_custom_command(
  OUTPUT ${_ft_page_header}
  COMMAND ${CMAKE_COMMAND} -DPAGE=${_ft_page} -DHEADER=${_ft_page_header} -P ${_ft_page_script}
  DEPENDS ${_ft_page} ${_ft_page_script}
  COMMENT "Embedding the page of a plan"
  VERBATIM)
target_sources(ft_session PRIVATE ${_ft_page_header})

# Tests of sessions run models on the simulated device, count calls for memory, and let starts of threads fail.
list(APPEND tests ${CMAKE_CURRENT_SOURCE_DIR}/device/sim_device_testing.cc
     ${CMAKE_CURRENT_SOURCE_DIR}/memory/memory_calls_testing.cc
     ${CMAKE_CURRENT_SOURCE_DIR}/threading/thread_starts_testing.cc)
